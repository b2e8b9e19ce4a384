package tables

import (
	"fmt"
	"math/big"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
)

// Row is a row of the table. The libraries that have indexes in tags have types of their own
// with the same fields, where there are some.
type Row struct {
	// The primary key, from 1.
	ID int64 `kstone:"id,pk" bstore:"noauto" badgerhold:"key"`
	// Unique.
	Code string `kstone:"code"`
	// Unique in the data, but its index does not know.
	At int64 `kstone:"at"`
	// As At, in another order.
	Seq      int64  `kstone:"seq"`
	Customer int64  `kstone:"customer"`
	Amount   int64  `kstone:"amount"`
	Status   string `kstone:"status"`
	Note     string `kstone:"note"`
}

// pair is what a covering query of the index over At returns.
type pair struct{ At, Amount int64 }

// data is rows 1 to n. The values of At are 0 to n-1, and so are those of Seq, in orders
// that have nothing to do with that of the ids.
type data struct {
	n                 int64
	at, seq           int64 // multipliers without a common factor with n
	atBack, seqBack   int64
	atShift, seqShift int64
}

func newData(n int) *data {
	d := &data{n: int64(n), atShift: int64(n) / 3, seqShift: int64(n) / 7}
	d.at, d.atBack = multiplier(d.n, 0.618)
	d.seq, d.seqBack = multiplier(d.n, 0.414)
	return d
}

// multiplier returns a number near share*n that can be inverted modulo n, and its inverse.
func multiplier(n int64, share float64) (m, inverse int64) {
	if n == 1 {
		return 1, 1
	}
	for m = int64(share*float64(n)) | 1; ; m++ {
		if back := new(big.Int).ModInverse(big.NewInt(m), big.NewInt(n)); back != nil {
			return m, back.Int64()
		}
	}
}

// row returns a row. Those after n, which are inserted later, have values of At and Seq all
// over the place.
func (d *data) row(id int64) Row {
	h := mix(uint64(id))
	r := Row{
		ID: id, Code: d.code(id), Customer: int64(h >> 40 % 10_000),
		Amount: int64(h >> 20 % 100_000), Status: statuses[h>>8%uint64(len(statuses))],
		Note: fmt.Sprintf("order %d, to be left with the neighbours, floor %d", id, h>>16%16),
	}
	if id <= d.n {
		r.At = ((id-1)*d.at + d.atShift) % d.n
		r.Seq = ((id-1)*d.seq + d.seqShift) % d.n
	} else {
		r.At, r.Seq = int64(mix(h)>>1), int64(mix(h+1)>>1)
	}
	return r
}

// code returns the code of a row.
func (d *data) code(id int64) string { return fmt.Sprintf("%016X", mix(uint64(id))) }

// byAt returns the row with a value of At, and bySeq that with one of Seq.
func (d *data) byAt(v int64) Row  { return d.row(back(v, d.n, d.atShift, d.atBack)) }
func (d *data) bySeq(v int64) Row { return d.row(back(v, d.n, d.seqShift, d.seqBack)) }

func back(v, n, shift, inverse int64) int64 { return (v-shift%n+n)%n*inverse%n + 1 }

var statuses = []string{"new", "paid", "packed", "sent", "delivered", "returned"}

// mix is a bijection, so that codes are unique.
func mix(v uint64) uint64 { return dataset.Mix(v + 0x9e3779b97f4a7c15) }
