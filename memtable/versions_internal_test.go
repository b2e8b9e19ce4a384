package memtable

// Versions returns the number of versions, tombstones included, that a Source would deliver
// now.
func (t *Table) Versions() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.arena.chunks
	slots := t.index.slots()
	for i := range slots {
		slot := slots[i].Load()
		if slot == 0 {
			continue
		}
		for ver := c.word(uint32(slot), nodeHead); ver != 0; ver = c.word(ver, versionPrev) {
			n++
		}
	}
	return n
}
