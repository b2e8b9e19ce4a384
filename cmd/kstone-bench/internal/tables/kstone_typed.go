package tables

import (
	"context"

	"github.com/kstonedb/kstone/engine/table"
)

// kstoneRow is Row with the tags of package table.
type kstoneRow struct {
	ID       int64  `kstone:"id,pk"`
	Code     string `kstone:"code"`
	At       int64  `kstone:"at"`
	Seq      int64  `kstone:"seq"`
	Customer int64  `kstone:"customer"`
	Amount   int64  `kstone:"amount"`
	Status   string `kstone:"status"`
	Note     string `kstone:"note"`
}

// The table as structs. Its indexes are those of the database that it is used with.
var (
	orders   = table.NewTable[kstoneRow]("orders")
	orderID  = table.Col(orders, func(r *kstoneRow) *int64 { return &r.ID })
	code     = table.Col(orders, func(r *kstoneRow) *string { return &r.Code })
	at       = table.Col(orders, func(r *kstoneRow) *int64 { return &r.At })
	seq      = table.Col(orders, func(r *kstoneRow) *int64 { return &r.Seq })
	argID    = orderID.Arg("id")
	argCode  = code.Arg("code")
	argLo    = at.Arg("lo")
	argHi    = at.Arg("hi")
	argFrom  = seq.Arg("from")
	argLimit = table.Arg[int]{Name: "limit"}
)

var (
	typedByID   = orders.Where(orderID.EqArg(argID)).Prepare()
	typedByCode = orders.Where(code.EqArg(argCode)).Prepare()
	typedByAt   = orders.Where(at.GeArg(argLo), at.LtArg(argHi)).OrderBy(at.Asc()).Prepare()
	typedBySeq  = orders.Where(seq.GeArg(argFrom)).OrderBy(seq.Asc()).LimitArg(argLimit).Prepare()
)

// typedSession reads structs where structs are wanted. What it embeds answers the rest: the
// covering query of two columns.
type typedSession struct{ *kstoneSession }

func (k typedSession) get(ctx context.Context, id int64, r *Row) error {
	v, err := typedByID.First(ctx, k.db, argID.Is(id))
	*r = Row(v)
	return err
}

// getOnce builds the query again, as an ad-hoc query is, with a parameter as the others have.
func (k typedSession) getOnce(ctx context.Context, id int64, r *Row) error {
	v, err := orders.Where(orderID.EqArg(argID)).First(ctx, k.db, argID.Is(id))
	*r = Row(v)
	return err
}

// getConstant is getOnce of a query that has the value in it.
func (k typedSession) getConstant(ctx context.Context, id int64, r *Row) error {
	v, err := orders.Where(orderID.Eq(id)).First(ctx, k.db)
	*r = Row(v)
	return err
}

// load is the fastest way to a row.
func (k typedSession) load(ctx context.Context, id int64, r *Row) error {
	v := kstoneRow{ID: id}
	err := orders.Load(ctx, k.db, &v)
	*r = Row(v)
	return err
}

func (k typedSession) getCode(ctx context.Context, text string, r *Row) error {
	v, err := typedByCode.First(ctx, k.db, argCode.Is(text))
	*r = Row(v)
	return err
}

func (k typedSession) rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	for v, err := range typedByAt.All(ctx, k.db, argLo.Is(lo), argHi.Is(hi)) {
		if err != nil {
			return dst, err
		}
		dst = append(dst, Row(v))
	}
	return dst, nil
}

func (k typedSession) firstBySeq(ctx context.Context, dst []Row, from int64,
	limit int) ([]Row, error) {
	for v, err := range typedBySeq.All(ctx, k.db, argFrom.Is(from), argLimit.Is(limit)) {
		if err != nil {
			return dst, err
		}
		dst = append(dst, Row(v))
	}
	return dst, nil
}
