/** Milliseconds of a step in the series. */
const STEP = 5_000
/** Number of steps. */
const STEPS = 60
/** Numbers in a step: admitted, refused, maximum in a bucket. */
const COLUMNS = 3
/** Number of parts of the window. */
const PARTS = 60
/** Size of the ring of parts, a power of two: room for all and for the next one. */
const CELLS = 64

/** Step of a series. */
export interface UsageStep {
  /** Start: monotonic milliseconds. */
  readonly at: number
  readonly admitted: number
  /** Requests beyond the capacity, refused or not. */
  readonly refused: number
  /** Admissions in the fullest bucket of a request. */
  readonly used: number
}

/** Counts of a usage as plain data. */
export interface UsageNumbers {
  /** Number of the last step, and the steps up to it, oldest first. */
  readonly step: number
  readonly steps: Float64Array
  /** Number of the current part of the window, and the numbers of buckets by the part of their last admission, oldest first. */
  readonly cell: number
  readonly cells: Int32Array
}

/**
 * Usage of one limit: a series over five minutes, and the number of buckets in use. Fixed size; time is monotonic milliseconds.
 *
 * A bucket is in use until its last admission has left the window. So a count of buckets for each 1/60 of the window suffices: an admission
 * moves its bucket from one part to another.
 */
export class Usage {
  static readonly stepSeconds = STEP / 1_000
  /** Steps before the current one. */
  readonly #steps = new Float64Array(STEPS * COLUMNS)
  readonly #cells = new Int32Array(CELLS)
  readonly #width: number
  /** Current step: its number, end and content. An admission compares with the end, which is cheaper than a division. */
  #step = -1
  #stepEnd = 0
  #admitted = 0
  #refused = 0
  #used = 0
  /** Current part of the window: its number, start and end. */
  #cell = -1
  #cellStart = 0
  #cellEnd = 0

  /** @param rate window in milliseconds */
  constructor(rate: number) {
    this.#width = rate / PARTS
  }

  /**
   * Counts an admission. `used`: admissions in its bucket including this one; `before`: time of the bucket's previous one, -1 for none, or
   * `at` itself if this one costs nothing.
   */
  admitted(at: number, used: number, before: number): void {
    if (at >= this.#stepEnd) this.#nextStep(at)
    this.#admitted += 1
    if (used > this.#used) this.#used = used
    if (at >= this.#cellEnd) this.#nextCell(at)
    if (before < this.#cellStart) this.#enter(before)
  }

  /** Counts a request beyond the capacity. `used`: admissions in its bucket. */
  refused(at: number, used: number): void {
    if (at >= this.#stepEnd) this.#nextStep(at)
    this.#refused += 1
    if (used > this.#used) this.#used = used
  }

  /** Counts a cleared bucket. `last`: time of its last admission; -1: it was empty. */
  emptied(at: number, last: number): void {
    if (at >= this.#cellEnd) this.#nextCell(at)
    if (last >= 0) this.#add(Math.floor(last / this.#width), -1)
  }

  /** Returns the counts as plain data. */
  numbers(at: number): UsageNumbers {
    if (at >= this.#stepEnd) this.#nextStep(at)
    if (at >= this.#cellEnd) this.#nextCell(at)
    const steps = new Float64Array(STEPS * COLUMNS)
    for (let i = 0; i < STEPS - 1; i += 1) {
      const place = placeOf(this.#step - STEPS + 1 + i)
      steps.set(this.#steps.subarray(place, place + COLUMNS), i * COLUMNS)
    }
    steps.set([this.#admitted, this.#refused, this.#used], (STEPS - 1) * COLUMNS)
    const cells = new Int32Array(PARTS + 1)
    for (let part = 0; part <= PARTS; part += 1)
      cells[part] = this.#cells[(this.#cell - PARTS + part) & (CELLS - 1)] as number
    return { step: this.#step, steps, cell: this.#cell, cells }
  }

  /** Stores the current step and clears the place of the next one. */
  #nextStep(at: number): void {
    const step = Math.floor(at / STEP)
    if (this.#step >= 0) this.#steps.set([this.#admitted, this.#refused, this.#used], placeOf(this.#step))
    for (let one = Math.max(this.#step + 1, step - STEPS + 1); one <= step; one += 1)
      this.#steps.fill(0, placeOf(one), placeOf(one) + COLUMNS)
    this.#step = step
    this.#stepEnd = (step + 1) * STEP
    this.#admitted = 0
    this.#refused = 0
    this.#used = 0
  }

  #nextCell(at: number): void {
    const cell = Math.floor(at / this.#width)
    for (let one = Math.max(this.#cell + 1, cell - CELLS + 1); one <= cell; one += 1) this.#cells[one & (CELLS - 1)] = 0
    this.#cell = cell
    this.#cellStart = cell * this.#width
    this.#cellEnd = (cell + 1) * this.#width
  }

  /** Moves a bucket with an earlier last admission to the current part. */
  #enter(before: number): void {
    if (before >= 0) this.#add(Math.floor(before / this.#width), -1)
    this.#add(this.#cell, 1)
  }

  #add(cell: number, count: number): void {
    const place = cell & (CELLS - 1)
    this.#cells[place] = (this.#cells[place] as number) + count
  }
}

/** Returns the number of buckets in use; one may count for 1/60 of the window longer. */
export function bucketsOf({ cells }: UsageNumbers): number {
  return Math.max(
    0,
    cells.reduce((sum, count) => sum + count, 0)
  )
}

/** Returns the decisions in the series. */
export function recentOf(numbers: UsageNumbers): { readonly admitted: number; readonly refused: number } {
  let [admitted, refused] = [0, 0]
  for (const step of seriesOf(numbers)) {
    admitted += step.admitted
    refused += step.refused
  }
  return { admitted, refused }
}

/** Returns the last five minutes, oldest first; the last step is incomplete. */
export function seriesOf({ step, steps }: UsageNumbers): UsageStep[] {
  return Array.from({ length: STEPS }, (_, i) => {
    const [admitted = 0, refused = 0, used = 0] = steps.subarray(i * COLUMNS, (i + 1) * COLUMNS)
    return { at: (step - STEPS + 1 + i) * STEP, admitted, refused, used }
  })
}

/** Adds two usages of one limit. */
export function sumOfUsage(one: UsageNumbers, other: UsageNumbers): UsageNumbers {
  const sum = {
    step: Math.max(one.step, other.step),
    steps: new Float64Array(STEPS * COLUMNS),
    cell: Math.max(one.cell, other.cell),
    cells: new Int32Array(PARTS + 1)
  }
  for (const { step, steps, cell, cells } of [one, other]) {
    for (let from = sum.step - step; from < STEPS; from += 1) {
      const [place, to] = [from * COLUMNS, (from - sum.step + step) * COLUMNS]
      sum.steps[to] = (sum.steps[to] as number) + (steps[place] as number)
      sum.steps[to + 1] = (sum.steps[to + 1] as number) + (steps[place + 1] as number)
      sum.steps[to + 2] = Math.max(sum.steps[to + 2] as number, steps[place + 2] as number)
    }
    for (let from = sum.cell - cell; from <= PARTS; from += 1) {
      const to = from - sum.cell + cell
      sum.cells[to] = (sum.cells[to] as number) + (cells[from] as number)
    }
  }
  return sum
}

function placeOf(step: number): number {
  return (((step % STEPS) + STEPS) % STEPS) * COLUMNS
}
