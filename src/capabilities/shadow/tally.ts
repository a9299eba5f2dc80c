import type { ShadowCell, ShadowCounts, ShadowExample, ShownDecision } from './answers.js'
import { type Aspect, type Outcome, wordOf } from './decision.js'

/** Number of exchanges with one pair of decisions. */
type Cell = Omit<ShadowCell, 'count' | 'examples'> & { count: number; readonly examples: ShadowExample[] }

/** Maximum number of cells of one matrix; further ones are counted together. */
const MOST_CELLS = 200
/** Characters of all explanations that are kept. */
const MOST_EXPLAINED = 4 * 1024 * 1024

/** Counts decisions of a candidate beside the live ones. */
export class Tally {
  seen = 0
  same = 0
  changed = 0
  overBudget = 0
  dropped = 0
  /** Changed exchanges that are in no cell. */
  others = 0
  /** Milliseconds of work. */
  spent = 0
  slowest = 0
  readonly notJudged = new Map<string, number>()
  readonly #cells = new Map<string, Cell>()
  readonly #mostExamples: number
  #explained = 0

  /** `mostExamples`: of one cell. */
  constructor(mostExamples: number) {
    this.#mostExamples = mostExamples
  }

  get counts(): ShadowCounts {
    const notJudged = [...this.notJudged.values()].reduce((sum, count) => sum + count, 0)
    const judged = this.same + this.changed
    const over = judged + notJudged + this.overBudget + this.dropped
    return {
      seen: this.seen,
      judged,
      same: this.same,
      changed: this.changed,
      not_judged: notJudged,
      over_budget: this.overBudget,
      dropped: this.dropped,
      waiting: this.seen - over
    }
  }

  worked(milliseconds: number): void {
    this.spent += milliseconds
    this.slowest = Math.max(this.slowest, milliseconds)
  }

  unjudged(reason: string): void {
    this.notJudged.set(reason, (this.notJudged.get(reason) ?? 0) + 1)
  }

  /** Counts a judged exchange. Returns true if its cell has room for an example. */
  judged(old: Outcome, candidate: Outcome, differs: readonly Aspect[]): boolean {
    if (differs.length === 0) this.same++
    else this.changed++
    const cell = this.#cell(old, candidate, differs)
    if (cell === undefined) {
      this.others++
      return false
    }
    cell.count++
    return differs.length > 0 && cell.examples.length < this.#mostExamples
  }

  /** Keeps an example, without its explanation when there is no room for that. */
  keep(old: Outcome, candidate: Outcome, example: ShadowExample): void {
    const cell = this.#cell(old, candidate, example.differs)
    if (cell === undefined || cell.examples.length >= this.#mostExamples) return
    const size = JSON.stringify(example.explanation).length
    const fits = this.#explained + size <= MOST_EXPLAINED
    if (fits) this.#explained += size
    cell.examples.push(fits ? example : { ...example, explanation: null })
  }

  /** Returns the matrix, most frequent cells first, differences before the rest. */
  cells(): ShadowCell[] {
    const cells = [...this.#cells.values()]
    cells.sort((a, b) => Number(b.differs.length > 0) - Number(a.differs.length > 0) || b.count - a.count)
    return cells.map((cell) => ({ ...cell, examples: [...cell.examples] }))
  }

  #cell(old: Outcome, candidate: Outcome, differs: readonly Aspect[]): Cell | undefined {
    const [was, is] = [shownDecision(old), shownDecision(candidate)]
    const key = JSON.stringify([was, is, differs])
    let cell = this.#cells.get(key)
    if (cell === undefined && this.#cells.size < MOST_CELLS) {
      cell = { old: was, new: is, differs, count: 0, examples: [] }
      this.#cells.set(key, cell)
    }
    return cell
  }
}

/** An outcome, for people. */
export function shownDecision(outcome: Outcome): ShownDecision {
  const { answer, by, forwarded } = outcome
  const own = typeof answer !== 'string' && (forwarded === undefined || answer.own)
  return {
    decision: wordOf(outcome),
    status: own ? answer.status : null,
    code: own ? (answer.code ?? null) : null,
    by: by ?? null
  }
}
