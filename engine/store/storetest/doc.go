// Package storetest has what proves an implementation of store.Store: [Checks], which each
// must pass.
//
//	func TestStore(t *testing.T) {
//		for _, check := range storetest.Checks(1) {
//			t.Run(check.Name, func(t *testing.T) { check.Run(t, open(t)) })
//		}
//	}
package storetest
