package compare

import (
	"context"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

type gormUser struct {
	ID         int64
	Name, City string
}

type gormProduct struct {
	ID   int64
	Name string
}

type gormOrder struct {
	ID      int64
	UserID  int64     `gorm:"index:by_user,priority:1"`
	Product int64     `gorm:"column:product_id"`
	At      time.Time `gorm:"index:by_user,priority:2;index:by_at"`
	Cents   int64
}

type gormProgram struct{ db *gorm.DB }

func openGorm(ctx context.Context, dir string) (program, error) {
	db, err := gorm.Open(sqlite.Open(sqliteSource(dir)), &gorm.Config{
		PrepareStmt: true, Logger: logger.Discard,
	})
	if err != nil {
		return nil, err
	}
	return gormProgram{db}, db.WithContext(ctx).AutoMigrate(&gormUser{}, &gormProduct{},
		&gormOrder{})
}

func (p gormProgram) load(ctx context.Context, d *data) error {
	var (
		users    []gormUser
		products []gormProduct
		orders   []gormOrder
	)
	for _, u := range d.users {
		users = append(users, gormUser(u))
	}
	for _, x := range d.products {
		products = append(products, gormProduct(x))
	}
	for _, o := range d.orders {
		orders = append(orders, gormOrder{o.ID, o.User, o.Product, o.At, o.Cents})
	}
	return p.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.CreateInBatches(users, 500).Error; err != nil {
			return err
		}
		if err := tx.CreateInBatches(products, 500).Error; err != nil {
			return err
		}
		return tx.CreateInBatches(orders, 500).Error
	})
}

func (p gormProgram) user(ctx context.Context, id int64) (userRow, error) {
	var u gormUser
	err := p.db.WithContext(ctx).Take(&u, id).Error
	return userRow(u), err
}

func (p gormProgram) latest(ctx context.Context, user int64, limit int) ([]orderRow, error) {
	var list []gormOrder
	err := p.db.WithContext(ctx).Where("user_id = ?", user).Order("at DESC").Limit(limit).
		Find(&list).Error
	out := make([]orderRow, len(list))
	for i, o := range list {
		out[i] = orderRow{o.ID, o.UserID, o.Product, o.At, o.Cents}
	}
	return out, err
}

func (p gormProgram) sales(ctx context.Context, from, to time.Time) ([]saleRow, error) {
	var out []saleRow
	err := p.db.WithContext(ctx).Model(&gormOrder{}).
		Select(`gorm_orders.id AS "order", gorm_orders.at, u.name AS user, x.name AS product`).
		Joins("JOIN gorm_users u ON u.id = gorm_orders.user_id").
		Joins("JOIN gorm_products x ON x.id = gorm_orders.product_id").
		Where("gorm_orders.at >= ? AND gorm_orders.at < ?", from, to).Order("gorm_orders.at").
		Scan(&out).Error
	return out, err
}

func (p gormProgram) cities(ctx context.Context) ([]cityRow, error) {
	var out []cityRow
	err := p.db.WithContext(ctx).Model(&gormOrder{}).
		Select("u.city, COUNT(*) AS orders, SUM(gorm_orders.cents) AS cents").
		Joins("JOIN gorm_users u ON u.id = gorm_orders.user_id").
		Group("u.city").Order("cents DESC").Scan(&out).Error
	return out, err
}

func (p gormProgram) rename(ctx context.Context, id int64, name string) error {
	return p.db.WithContext(ctx).Model(&gormUser{ID: id}).Update("name", name).Error
}

func (p gormProgram) close() error {
	db, err := p.db.DB()
	if err != nil {
		return err
	}
	return db.Close()
}
