package base

// Values are the values of several entries: those of Rows, or else in Data at Places. Why places:
// to write down two numbers takes less than a slice, which the garbage collector looks at.
type Values struct {
	Rows   []Entry
	Data   []byte
	Places []Place
}

// Place is where a value is.
type Place struct{ From, To uint32 }

// Len returns how many there are.
func (v *Values) Len() int { return len(v.Rows) + len(v.Places) }

// At returns value i.
func (v *Values) At(i int) []byte {
	if v.Rows != nil {
		return v.Rows[i].Value
	}
	p := v.Places[i]
	return v.Data[p.From:p.To:p.To]
}
