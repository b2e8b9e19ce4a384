package clients

import (
	"database/sql"
	"errors"
	"strconv"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"

	"github.com/kstonedb/kstone/engine/table"
)

// dialector is a small dialect of GORM: models with keys of their own, tables and indexes that
// are not there yet.
type dialector struct{ db *sql.DB }

func (dialector) Name() string { return "kstone" }

func (d dialector) Initialize(db *gorm.DB) error {
	db.ConnPool = d.db
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{})
	return nil
}

func (d dialector) Migrator(db *gorm.DB) gorm.Migrator {
	return creator{migrator.Migrator{Config: migrator.Config{DB: db, Dialector: d,
		CreateIndexAfterCreateTable: true}}}
}

func (dialector) DataTypeOf(f *schema.Field) string {
	name := map[schema.DataType]string{schema.Bool: "BOOL", schema.Int: "INT",
		schema.Uint: "UINT64", schema.Float: "FLOAT", schema.String: "TEXT",
		schema.Time: "TIMESTAMP(full)", schema.Bytes: "BYTES"}[f.DataType]
	if name == "" {
		name = string(f.DataType)
	}
	if !f.NotNull && !f.PrimaryKey {
		name += " NULL"
	}
	return name
}

func (dialector) DefaultValueOf(*schema.Field) clause.Expression {
	return clause.Expr{SQL: "DEFAULT"}
}

func (dialector) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) { _ = w.WriteByte('?') }

func (dialector) QuoteTo(w clause.Writer, name string) {
	for i, part := range splitName(name) {
		if i > 0 {
			_ = w.WriteByte('.')
		}
		_, _ = w.WriteString(strconv.Quote(part))
	}
}

func splitName(name string) (parts []string) {
	start := 0
	for i := range len(name) {
		if name[i] == '.' {
			parts, start = append(parts, name[start:i]), i+1
		}
	}
	return append(parts, name[start:])
}

func (dialector) Explain(text string, values ...any) string {
	return logger.ExplainSQL(text, nil, "'", values...)
}

func (dialector) SavePoint(tx *gorm.DB, name string) error {
	return tx.Exec("SAVEPOINT " + name).Error
}

func (dialector) RollbackTo(tx *gorm.DB, name string) error {
	return tx.Exec("ROLLBACK TO " + name).Error
}

// creator creates what is missing: it asks for a table by reading nothing from it.
type creator struct{ migrator.Migrator }

func (c creator) HasTable(model any) (has bool) {
	_ = c.RunWithValue(model, func(stmt *gorm.Statement) error {
		rows, err := c.DB.Session(&gorm.Session{Logger: logger.Discard}).
			Raw("SELECT 1 FROM " + c.DB.Statement.Quote(stmt.Table) + " LIMIT 0").Rows()
		if err == nil {
			has = true
			return rows.Close()
		}
		return nil
	})
	return has
}

func (c creator) AutoMigrate(models ...any) error {
	for _, m := range models {
		if c.HasTable(m) {
			continue
		}
		if err := c.CreateTable(m); err != nil && !errors.Is(err, table.ErrExists) {
			return err
		}
	}
	return nil
}

func (c creator) HasIndex(any, string) bool { return false }
