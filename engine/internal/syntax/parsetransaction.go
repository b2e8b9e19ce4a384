package syntax

// transaction reads a statement about a transaction; it returns nil for others. Other languages
// have several words for some of them; the result has one.
func (p *parser) transaction() Statement {
	t := &Transaction{}
	switch {
	case p.word("BEGIN"):
		p.noise()
		p.access(t)
	case p.words("START", "TRANSACTION"):
		p.access(t)
	case p.word("COMMIT"), p.word("END"):
		t.Verb = "COMMIT"
		p.noise()
	case p.word("ROLLBACK"):
		t.Verb = "ROLLBACK"
		if p.noise(); p.word("TO") {
			t.Verb = "ROLLBACK TO"
			p.savepoint(t)
		}
	case p.word("SAVEPOINT"):
		t.Verb, t.Savepoint = "SAVEPOINT", p.name("savepoint")
	case p.word("RELEASE"):
		t.Verb = "RELEASE"
		p.savepoint(t)
	default:
		return nil
	}
	return t
}

// transactionWords are the words that these statements begin with.
var transactionWords = []string{"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "START",
	"END"}

// noise steps over a word that says nothing.
func (p *parser) noise() {
	if !p.word("TRANSACTION") {
		p.word("WORK")
	}
}

// access reads what a transaction may do.
func (p *parser) access(t *Transaction) {
	t.Verb = "BEGIN"
	if p.word("READ") {
		if t.ReadOnly = p.word("ONLY"); !t.ReadOnly {
			p.needWord("WRITE")
		}
	}
	p.refuseAbsent(absentModes)
}

// absentModes follow BEGIN.
var absentModes = map[string]string{
	"ISOLATION": "levels of isolation; every transaction is serializable",
	"DEFERRED":  "kinds of BEGIN; no transaction waits for another one",
	"IMMEDIATE": "kinds of BEGIN; no transaction waits for another one",
	"EXCLUSIVE": "kinds of BEGIN; no transaction waits for another one",
}

// savepoint reads a name after the word SAVEPOINT or without it.
func (p *parser) savepoint(t *Transaction) {
	if p.isWord("SAVEPOINT") {
		if next := p.peek(); next.kind == tokenName || next.kind == tokenQuoted {
			p.advance()
		}
	}
	t.Savepoint = p.name("savepoint")
}
