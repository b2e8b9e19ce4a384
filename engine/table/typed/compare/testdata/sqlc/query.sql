-- name: InsertUser :exec
INSERT INTO users (id, name, city) VALUES (?, ?, ?);

-- name: InsertProduct :exec
INSERT INTO products (id, name) VALUES (?, ?);

-- name: InsertOrder :exec
INSERT INTO orders (id, user_id, product_id, at, cents) VALUES (?, ?, ?, ?, ?);

-- name: UserByID :one
SELECT id, name, city FROM users WHERE id = ?;

-- name: Latest :many
SELECT id, user_id, product_id, at, cents FROM orders
WHERE user_id = ? ORDER BY at DESC LIMIT ?;

-- name: Sales :many
SELECT o.id, o.at, u.name AS user_name, x.name AS product_name FROM orders o
JOIN users u ON u.id = o.user_id JOIN products x ON x.id = o.product_id
WHERE o.at >= sqlc.arg(first) AND o.at < sqlc.arg(end_at) ORDER BY o.at;

-- name: Cities :many
SELECT u.city, COUNT(*) AS orders, CAST(SUM(o.cents) AS INTEGER) AS cents FROM orders o
JOIN users u ON u.id = o.user_id GROUP BY u.city ORDER BY cents DESC;

-- name: Rename :exec
UPDATE users SET name = ? WHERE id = ?;
