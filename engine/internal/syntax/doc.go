// Package syntax reads and writes the text of statements: a lexer, a parser that makes
// trees, and a formatter that makes text of trees. It knows no tables: a name in a tree is a
// text with a place.
//
// Parse is a lexer and a recursive-descent parser without lookahead beyond two tokens.
// It never panics, bounds the depth of expressions and the length of its input, and every
// error names the position. Why no parser library: the ones that are kept well bring the
// grammar of another database, in which keys of two parts, SHARD and INCLUDE cannot be
// said, and most of them bring a dependency tree larger than kstone's.
package syntax
