package plan

// KeyOf returns the key of a query in a Cache.
func KeyOf(sel *Select) string {
	s := keyOf(sel, nil)
	defer s.release()
	return string(s.b)
}
