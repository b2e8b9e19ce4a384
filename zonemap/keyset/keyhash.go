package keyset

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
)

// keyHash turns keys into the words that filters of segments are built on. A key of
// eight bytes is its own word, read as a big-endian number: an integer key and its
// eight bytes are the same key. Other keys are hashed under secrets made of the seed.
// The word is then spread by base.Mix(word + seed).
//
// Why not base.Hash: its constants are public, and keys of more than 16 bytes whose
// first eight bytes equal one of them collide under every seed. Here keys that
// collide cannot be chosen without the seed.
//
// Format: words are what filters in segment files are built on; they must never change.
type keyHash struct {
	seed    uint64
	secrets [4]uint64
}

// NewSeed returns a random seed for the segments of a Set.
func NewSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail, says its documentation
	return binary.LittleEndian.Uint64(b[:])
}

func newKeyHash(seed uint64) keyHash {
	k := keyHash{seed: seed}
	for i := range k.secrets {
		// Odd, so that no secret is zero.
		k.secrets[i] = base.Mix(seed+uint64(i+1)*0x9e3779b97f4a7c15) | 1
	}
	return k
}

// word returns the word of a key of bytes.
func (k *keyHash) word(key []byte) uint64 {
	if len(key) == 8 {
		return binary.BigEndian.Uint64(key)
	}
	s := &k.secrets
	return base.FoldKey(key, s[0]^uint64(len(key)), s[1], s[2], s[3], s[0])
}

// salted returns the seed of a filter that could be built only under another seed than
// that of its segment. Salt 0 is the seed itself.
func salted(seed uint64, salt uint32) uint64 { return seed + uint64(salt)*0x9fb21c651e98df25 }
