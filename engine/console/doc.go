// Package console shows a database in a browser: what it holds and how it lies on the disk, live
// metrics, tables and items, queries with their plans, and advice about indexes.
//
//	c, err := console.New(tables, nil)
//	…
//	mux.Handle("/db/", http.StripPrefix("/db", c))
//	fmt.Println("http://localhost:8080/db/?token=" + c.Token())
//
// # Who may look
//
// Every request needs the token, which the first one has in its address and others in a cookie. It
// must name a loopback host, or one of Options.Hosts, so that a page from elsewhere whose name
// leads here is refused; and come from a page of the console itself. Statements change nothing
// unless Options.Write is set.
//
// The pages load nothing from elsewhere, and no script that is not a file of this package. What a
// database contains is shown as text.
//
// The package depends on the standard library only.
package console
