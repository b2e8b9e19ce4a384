package tables

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkReads measures the reads of kstone alone: for profiles.
func BenchmarkReads(b *testing.B) {
	st, err := openKstone(b.Context(), settings{dir: b.TempDir(), indexes: 3})
	if err != nil {
		b.Fatal(err)
	}
	defer st.close()
	d := newData(20_000)
	if err := (&bench{ctx: b.Context()}).load(
		&contestant{store: st}, d); err != nil {
		b.Fatal(err)
	}
	s, err := st.session(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range readCases {
		b.Run(c.name, func(b *testing.B) {
			r := &reader{session: s, rnd: rand.New(rand.NewPCG(1, 2))}
			b.ReportAllocs()
			for b.Loop() {
				if err := c.ask(b.Context(), r, d, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
