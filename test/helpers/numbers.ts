/** Whole numbers below a bound, the same in every run, so that a failure can be repeated (Numerical Recipes, a linear congruence). */
export function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
