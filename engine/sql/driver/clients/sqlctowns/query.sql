-- name: CreateTown :one
INSERT INTO town (country, name, people) VALUES (?, ?, ?) RETURNING *;

-- name: GetTown :one
SELECT * FROM town WHERE id = ? LIMIT 1;

-- name: TownsOf :many
SELECT id, name, people FROM town WHERE country = ? ORDER BY name;

-- name: Grow :execrows
UPDATE town SET people = people + ? WHERE country = ? AND people IS NOT NULL;

-- name: Sizes :many
SELECT country, count(*) AS towns, sum(people) AS people FROM town GROUP BY country ORDER BY country;

-- name: DeleteTown :exec
DELETE FROM town WHERE id = ?;
