/** Milliseconds of a step of the series, and how many steps there are. */
const STEP = 5_000
const STEPS = 60
/** Numbers of a step: admitted, refused, most that a bucket held. */
const COLUMNS = 3
/** The window in so many parts; a ring of cells, a power of two, has room for them and for the one that begins. */
const PARTS = 60
const CELLS = 64

/** One step of a series. */
export interface UsageStep {
  /** When it began: monotonic milliseconds. */
  readonly at: number
  readonly admitted: number
  /** Beyond the capacity, refused or not. */
  readonly refused: number
  /** Admissions of the fullest bucket that was asked. */
  readonly used: number
}

/** What a usage has counted, as plain data. */
export interface UsageNumbers {
  /** Number of the last step, and the steps up to it, oldest first. */
  readonly step: number
  readonly steps: Float64Array
  /** Number of the present part of the window, and how many buckets had their last admission in the parts up to it, oldest first. */
  readonly cell: number
  readonly cells: Int32Array
}

/**
 * How one limit is used: a series over five minutes, and how many buckets are in use. Plain numbers of a fixed size; time is
 * monotonic milliseconds and does not go back.
 *
 * A bucket is in use until its last admission has left the window. So it is enough to know, for each 60th part of the window, how many
 * buckets had their last admission there: an admission takes its bucket out of one part and puts it into another one.
 */
export class Usage {
  static readonly stepSeconds = STEP / 1_000
  /** The steps before the present one. */
  readonly #steps = new Float64Array(STEPS * COLUMNS)
  readonly #cells = new Int32Array(CELLS)
  readonly #width: number
  /** The present step: its number, its end, and what is in it. An admission looks at its end, because that costs less than a division. */
  #step = -1
  #stepEnd = 0
  #admitted = 0
  #refused = 0
  #used = 0
  /** The present part of the window: its number, its beginning and its end. */
  #cell = -1
  #cellStart = 0
  #cellEnd = 0

  /** @param rate the window in milliseconds */
  constructor(rate: number) {
    this.#width = rate / PARTS
  }

  /** An admission; `used`: what its bucket holds with it, `before`: when the bucket's last one was, -1: there is none; `at` itself: it counts nothing. */
  admitted(at: number, used: number, before: number): void {
    if (at >= this.#stepEnd) this.#nextStep(at)
    this.#admitted += 1
    if (used > this.#used) this.#used = used
    if (at >= this.#cellEnd) this.#nextCell(at)
    if (before < this.#cellStart) this.#enter(before)
  }

  /** A request beyond the capacity; `used`: what its bucket holds. */
  refused(at: number, used: number): void {
    if (at >= this.#stepEnd) this.#nextStep(at)
    this.#refused += 1
    if (used > this.#used) this.#used = used
  }

  /** A bucket is emptied whose last admission was then; -1: it is empty. */
  emptied(at: number, last: number): void {
    if (at >= this.#cellEnd) this.#nextCell(at)
    if (last >= 0) this.#add(Math.floor(last / this.#width), -1)
  }

  /** What was counted, as plain data. */
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

  /** The present step goes to the past ones, and the place of the one that begins is cleared. */
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

  /** A bucket whose last admission was before the present part comes to it. */
  #enter(before: number): void {
    if (before >= 0) this.#add(Math.floor(before / this.#width), -1)
    this.#add(this.#cell, 1)
  }

  #add(cell: number, count: number): void {
    const place = cell & (CELLS - 1)
    this.#cells[place] = (this.#cells[place] as number) + count
  }
}

/** Buckets that hold an admission; one may count for a 60th of the window longer. */
export function bucketsOf({ cells }: UsageNumbers): number {
  return Math.max(
    0,
    cells.reduce((sum, count) => sum + count, 0)
  )
}

/** What was decided within the series. */
export function recentOf(numbers: UsageNumbers): { readonly admitted: number; readonly refused: number } {
  let [admitted, refused] = [0, 0]
  for (const step of seriesOf(numbers)) {
    admitted += step.admitted
    refused += step.refused
  }
  return { admitted, refused }
}

/** The last five minutes, oldest first; the last step is not over. */
export function seriesOf({ step, steps }: UsageNumbers): UsageStep[] {
  return Array.from({ length: STEPS }, (_, i) => {
    const [admitted = 0, refused = 0, used = 0] = steps.subarray(i * COLUMNS, (i + 1) * COLUMNS)
    return { at: (step - STEPS + 1 + i) * STEP, admitted, refused, used }
  })
}

/** What two usages of one limit have counted together. */
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
