package tables

import (
	"fmt"
	"math/big"
)

// Row is a row of the table. The engines that keep structs have types of their own with the
// same fields, for their tags.
type Row struct {
	ID       int64  // primary key, from 1
	Code     string // unique
	At       int64  // unique in the data, but its index does not know
	Seq      int64  // as At, in another order
	Customer int64
	Amount   int64
	Status   string
	Note     string
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

// mix is the finaliser of splitmix64: a bijection, so that codes are unique.
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
