package plan_test

import "testing"

// The open questions of the integer shard index proposal, a test and a golden file each.

// Promise (plans): The rewrites that the proposal prints are those of EXPLAIN.
func TestExplainUniqueShardIndex(t *testing.T) { runGolden(t, "unique_index") }

// Promise (plans): Every open question of the integer shard index proposal has an answer. Also
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
