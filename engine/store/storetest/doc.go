// Package storetest has what proves an implementation of store.Store: [Checks], which each
// must pass, and [Memory], the simplest one, which stands beside the local one in the
// tests to show that the checks ask for nothing special.
//
//	func TestStore(t *testing.T) {
//		for _, check := range storetest.Checks(1) {
//			t.Run(check.Name, func(t *testing.T) { check.Run(t, open(t)) })
//		}
//	}
package storetest
