package sst

import (
	"errors"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// TestSalvageTakesBlocksInOrder: a block under a right checksum counts only if its entries ascend,
// within it and from the block before, and belong to the file's stripe.
func TestSalvageTakesBlocksInOrder(t *testing.T) {
	type entry struct {
		pk, sk string
		seq    base.SeqNum
	}
	block := func(entries ...entry) []byte {
		var b blockBuilder
		for _, e := range entries {
			key := keycodec.AppendOrdered(nil, keycodec.Key{PK: []byte(e.pk), SK: []byte(e.sk)})
			b.add(&base.Entry{Key: key, Seq: e.seq, Kind: base.KindPut, Value: []byte("v")})
		}
		return b.appendBlock(nil)
	}
	other := "a"
	for keycodec.Stripe([]byte(other)) == keycodec.Stripe([]byte("p")) {
		other += "a"
	}
	damaged := block(entry{"p", "1", 5})
	damaged[len(damaged)-1]++
	damaged[len(damaged)-2]++ // a value that is longer than its entry
	for what, c := range map[string]struct {
		blocks [][]byte
		taken  int
	}{
		"ascending": {[][]byte{block(entry{"p", "1", 5}, entry{"p", "2", 9}),
			block(entry{"p", "3", 1})}, 2},
		"versions": {[][]byte{block(entry{"p", "1", 5}, entry{"p", "1", 4}),
			block(entry{"p", "1", 3}, entry{"p", "1", 0})}, 2},
		"first at 0":     {[][]byte{block(entry{"p", "1", 0})}, 1},
		"a lower key":    {[][]byte{block(entry{"p", "2", 5}), block(entry{"p", "1", 5})}, 1},
		"equal versions": {[][]byte{block(entry{"p", "2", 5}), block(entry{"p", "2", 5})}, 1},
		"newer versions": {[][]byte{block(entry{"p", "2", 5}), block(entry{"p", "2", 6})}, 1},
		"equal within":   {[][]byte{block(entry{"p", "2", 5}, entry{"p", "2", 5})}, 0},
		"lower within":   {[][]byte{block(entry{"p", "2", 5}, entry{"p", "1", 5})}, 0},
		"another stripe": {[][]byte{block(entry{other, "1", 5})}, 0},
		"half an entry":  {[][]byte{damaged}, 0},
		"no block":       {[][]byte{{}, damaged[:10]}, 0},
	} {
		s := Salvaged{id: Identity{Stripe: base.StripeID(keycodec.Stripe([]byte("p")))}}
		taken, entries, most := 0, uint64(0), base.SeqNum(0)
		for _, raw := range c.blocks {
			err := s.take(raw, blockHandle{})
			if err != nil {
				var damage *corrupt.Error
				if !errors.As(err, &damage) || damage.Offset != 0 {
					t.Errorf("%s: %v", what, err)
				}
				continue
			}
			taken++
			b, _ := openDataBlock(raw)
			entries += uint64(b.n)
			var e base.Entry
			for i := range b.n {
				if b.entry(i, &e) {
					most = max(most, e.Seq)
				}
			}
		}
		if taken != c.taken || len(s.blocks) != taken || s.Entries != entries || s.MaxSeq != most {
			t.Errorf("%s: %d blocks taken, want %d; %d entries up to %d, want %d up to %d",
				what, taken, c.taken, s.Entries, s.MaxSeq, entries, most)
		}
	}
}
