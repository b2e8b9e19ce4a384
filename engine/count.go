package engine

import "context"

// Count returns the number of items q selects (Limit included), without copying
// them.
func (db *DB) Count(ctx context.Context, q Query) (int64, error) {
	return db.query(ctx, &q, reader{}, nil).both()
}

// CountScan returns the number of items s selects (Limit included). The order costs
// nothing: the stripes are counted one by one.
func (db *DB) CountScan(ctx context.Context, s Scan) (int64, error) {
	return db.scan(ctx, &s, reader{}, nil).both()
}

// CountGather returns the number of items g selects (Limit included). The order costs
// nothing: the partitions are counted one by one.
func (db *DB) CountGather(ctx context.Context, g Gather) (int64, error) {
	return db.gather(ctx, &g, reader{}, nil).both()
}

// Count is DB.Count in the snapshot.
func (s *Snapshot) Count(ctx context.Context, q Query) (int64, error) {
	return s.db.query(ctx, &q, reader{snap: s}, nil).both()
}

// CountScan is DB.CountScan in the snapshot.
func (s *Snapshot) CountScan(ctx context.Context, sc Scan) (int64, error) {
	return s.db.scan(ctx, &sc, reader{snap: s}, nil).both()
}

// CountGather is DB.CountGather in the snapshot.
func (s *Snapshot) CountGather(ctx context.Context, g Gather) (int64, error) {
	return s.db.gather(ctx, &g, reader{snap: s}, nil).both()
}

// Count is DB.Count in the transaction, which then depends on all that was counted.
func (tx *Tx) Count(ctx context.Context, q Query) (int64, error) {
	return tx.db.query(ctx, &q, reader{tx: tx}, nil).both()
}

// CountScan is DB.CountScan in the transaction.
func (tx *Tx) CountScan(ctx context.Context, s Scan) (int64, error) {
	return tx.db.scan(ctx, &s, reader{tx: tx}, nil).both()
}

// CountGather is DB.CountGather in the transaction.
func (tx *Tx) CountGather(ctx context.Context, g Gather) (int64, error) {
	return tx.db.gather(ctx, &g, reader{tx: tx}, nil).both()
}

func (o outcome) both() (int64, error) { return o.items, o.err }
