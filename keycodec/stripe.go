package keycodec

import "hash/crc32"

// Stripe returns the stripe that a partition belongs to: CRC-32 (IEEE) of the PK,
// modulo 256.
//
// Format: files are named after the stripe; the function must never change.
func Stripe(pk []byte) uint8 {
	if len(pk) > shortPK {
		return uint8(crc32.ChecksumIEEE(pk))
	}
	n := len(pk)
	s := stripeOfZeros[n]
	changes := stripeOfByte[shortPK-n:]
	for len(pk) >= 8 {
		c, b := (*[8][256]uint8)(changes), (*[8]byte)(pk)
		s ^= c[0][b[0]] ^ c[1][b[1]] ^ c[2][b[2]] ^ c[3][b[3]] ^
			c[4][b[4]] ^ c[5][b[5]] ^ c[6][b[6]] ^ c[7][b[7]]
		pk, changes = pk[8:], changes[8:]
	}
	changes = changes[:len(pk)] // of the same length, for the compiler
	for i, b := range pk {
		s ^= changes[i][b]
	}
	return s
}

// shortPK is the longest PK whose stripe is found in tables. Why: a CRC is linear, so its
// lowest byte is the exclusive-or of what each byte of the PK contributes by itself. These
// loads do not wait for each other, which the steps of the usual computation do; that wins
// where there are enough bytes for its vector instructions.
const shortPK = 63

var (
	// stripeOfZeros is the stripe of so many zero bytes. stripeOfByte is what a byte changes it
	// by, at its position in a PK of shortPK bytes: only how many bytes follow matters.
	stripeOfZeros [shortPK + 1]uint8
	stripeOfByte  [shortPK][256]uint8
)

func init() {
	var zeros [shortPK]byte
	for n := range stripeOfZeros {
		stripeOfZeros[n] = uint8(crc32.ChecksumIEEE(zeros[:n]))
	}
	for b, state := range crc32.IEEETable {
		for d := range stripeOfByte {
			stripeOfByte[shortPK-1-d][b] = uint8(state)
			state = crc32.IEEETable[uint8(state)] ^ state>>8
		}
	}
}
