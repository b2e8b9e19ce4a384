//go:build wrong_gorm

package compare

import "gorm.io/gorm"

func wrongGorm(db *gorm.DB) {
	db.Model(&gormOrder{}).Where("usr_id = ?", 1)
	db.Model(&gormOrder{}).Where("user_id = ?", "1")
	db.Model(&gormOrder{}).Where("city = ?", "Paris")
	db.Model(&gormOrder{}).Select("SUM(cents) AS city").Scan(&[]cityRow{})
	db.Model(&gormOrder{}).Joins("JOIN gorm_users u ON u.city = gorm_orders.user_id")
}
