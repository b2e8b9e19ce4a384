//go:build !purego

#include "textflag.h"

// func Prefetch(addrs *unsafe.Pointer, n int)
TEXT ·Prefetch(SB), NOSPLIT, $0-16
	MOVQ addrs+0(FP), SI
	MOVQ n+8(FP), CX
	TESTQ CX, CX
	JLE  done

next:
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	ADDQ $8, SI
	DECQ CX
	JNZ  next

done:
	RET

// func PrefetchSpans(addrs *unsafe.Pointer, n, size int)
TEXT ·PrefetchSpans(SB), NOSPLIT, $0-24
	MOVQ addrs+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ size+16(FP), DX
	DECQ DX
	TESTQ CX, CX
	JLE  done

next:
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	PREFETCHT0 (AX)(DX*1)
	ADDQ $8, SI
	DECQ CX
	JNZ  next

done:
	RET
