package plan_test

import "testing"

// The ways to read sharded indexes, a test and a golden file each.

// Promise (plans): EXPLAIN shows the buckets that conditions on a unique sharded index select.
func TestExplainUniqueShardIndex(t *testing.T) { runGolden(t, "unique_index") }

// Promise (plans): EXPLAIN shows the buckets and the order that other sharded keys give: indexes
// that are not unique, primary keys, ranges, lists, prefixes, groups, limits, joins. Also
// `TestExplainPrimaryKeyShard`, `TestExplainRange`, `TestExplainAndMixedWithOr`,
// `TestExplainInOnJointIndex`, `TestExplainGroupBy`, `TestExplainOrderByLimit`,
// `TestExplainJoin`, `TestExplainInSubquery`, `TestExplainPrefixOfJointIndex`,
// `TestExplainPointPlan`, `TestExplainPreparedPlanCache`.
func TestExplainNonUniqueShardIndex(t *testing.T) { runGolden(t, "non_unique_index") }
func TestExplainPrimaryKeyShard(t *testing.T)     { runGolden(t, "primary_key") }
func TestExplainRange(t *testing.T)               { runGolden(t, "range") }
func TestExplainAndMixedWithOr(t *testing.T)      { runGolden(t, "and_or") }
func TestExplainInOnJointIndex(t *testing.T)      { runGolden(t, "joint_in") }
func TestExplainPrefixOfJointIndex(t *testing.T)  { runGolden(t, "joint_prefix") }
func TestExplainGroupBy(t *testing.T)             { runGolden(t, "group_by") }
func TestExplainOrderByLimit(t *testing.T)        { runGolden(t, "order_by") }
func TestExplainJoin(t *testing.T)                { runGolden(t, "join") }
func TestExplainInSubquery(t *testing.T)          { runGolden(t, "in_subquery") }
func TestExplainPointPlan(t *testing.T)           { runGolden(t, "point") }
func TestExplainPreparedPlanCache(t *testing.T)   { runGolden(t, "plan_cache") }

// Promise (plans): A plan that reads all of an index or table says so and can be refused, skip
// scans and MIN with filters included. Also `TestExplainPrimaryKeyShard`.
func TestExplainPaths(t *testing.T)  { runGolden(t, "paths") }
func TestExplainErrors(t *testing.T) { runGolden(t, "errors") }
