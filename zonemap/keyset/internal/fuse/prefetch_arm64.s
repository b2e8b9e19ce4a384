//go:build !purego

#include "textflag.h"

// func Prefetch(addrs *unsafe.Pointer, n int)
TEXT ·Prefetch(SB), NOSPLIT, $0-16
	MOVD addrs+0(FP), R0
	MOVD n+8(FP), R1
	CMP  $0, R1
	BLE  done

next:
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	SUBS $1, R1, R1
	BNE  next

done:
	RET

// func PrefetchSpans(addrs *unsafe.Pointer, n, size int)
TEXT ·PrefetchSpans(SB), NOSPLIT, $0-24
	MOVD addrs+0(FP), R0
	MOVD n+8(FP), R1
	MOVD size+16(FP), R3
	SUB  $1, R3, R3
	CMP  $0, R1
	BLE  done

next:
	MOVD.P 8(R0), R2
	ADD  R3, R2, R4
	PRFM (R2), PLDL1KEEP
	PRFM (R4), PLDL1KEEP
	SUBS $1, R1, R1
	BNE  next

done:
	RET
