// Package zone has the column zones of blocks and files: bounds of the values of columns, by which
// a reader sees that none of the items has what it looks for. It knows neither files nor keys.
package zone
