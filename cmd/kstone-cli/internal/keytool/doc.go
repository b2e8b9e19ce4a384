// Package keytool has the commands that work on keys without a database: keys and segment.
package keytool
