// Package schema declares the tables for ent.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// User is a table.
type User struct{ ent.Schema }

// Fields returns the columns.
func (User) Fields() []ent.Field {
	return []ent.Field{field.Int64("id"), field.String("name"), field.String("city")}
}

// Edges returns what the table is joined to.
func (User) Edges() []ent.Edge { return []ent.Edge{edge.To("orders", Order.Type)} }

// Product is a table.
type Product struct{ ent.Schema }

// Fields returns the columns.
func (Product) Fields() []ent.Field { return []ent.Field{field.Int64("id"), field.String("name")} }

// Edges returns what the table is joined to.
func (Product) Edges() []ent.Edge { return []ent.Edge{edge.To("orders", Order.Type)} }

// Order is a table.
type Order struct{ ent.Schema }

// Fields returns the columns.
func (Order) Fields() []ent.Field {
	return []ent.Field{field.Int64("id"), field.Int64("user_id"), field.Int64("product_id"),
		field.Time("at"), field.Int64("cents")}
}

// Edges returns what the table is joined to.
func (Order) Edges() []ent.Edge {
	return []ent.Edge{
		edge.From("user", User.Type).Ref("orders").Field("user_id").Unique().Required(),
		edge.From("product", Product.Type).Ref("orders").Field("product_id").Unique().Required(),
	}
}

// Indexes returns the indexes.
func (Order) Indexes() []ent.Index {
	return []ent.Index{index.Fields("user_id", "at"), index.Fields("at")}
}
