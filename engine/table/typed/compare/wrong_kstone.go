//go:build wrong_kstone

package compare

import "github.com/kstonedb/kstone/engine/table/typed"

func wrongKstone() {
	_ = orders.Where(orderUsr.Eq(1))                                      // error
	_ = orders.Where(orderUser.Eq("1"))                                   // error
	_ = orders.Where(saleCity.Eq("Paris"))                                // error
	_ = typed.Sum(saleCents, func(c *cityRow) *string { return &c.City }) // error
	_ = sales.On(saleBuyer.EqColumn(saleCity))                            // error
}
