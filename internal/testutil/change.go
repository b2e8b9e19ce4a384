package testutil

import "bytes"

// EachChange calls try with every beginning of b, and with b after each change of one byte: its
// lowest bit, its highest bit, all bits clear, all bits set. Each call has the time that Watch
// gives.
//
// It is for content under a checksum: tests that damage a file end at the checksum, while try
// encodes the changed content under a right one. What a decoder does then is the same as with
// what a faulty writer has written.
func EachChange(b []byte, try func(changed []byte)) {
	watched := func(changed []byte) {
		defer Watch(changed)()
		try(changed)
	}
	for n := range b {
		watched(bytes.Clone(b[:n]))
	}
	for i, was := range b {
		for _, now := range []byte{was ^ 1, was ^ 0x80, 0, 0xff} {
			if now != was {
				c := bytes.Clone(b)
				c[i] = now
				watched(c)
			}
		}
	}
}
