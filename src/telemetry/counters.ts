import {
  Counter as CounterMetric,
  Gauge as GaugeMetric,
  Histogram as HistogramMetric,
  type Registry
} from 'prom-client'

/*
 * What traffic counts. Each is plain numbers that a request changes by itself; the metrics library, whose counters cost half
 * a microsecond each, reads them at a scrape.
 */

interface Description {
  readonly name: string
  readonly help: string
  readonly registers: Registry[]
}

type Labels = Readonly<Record<string, string>>

/** What a metric has counted since it was last asked, by its labels as one text: a number, or the numbers of a distribution. */
export type CountedNumbers = ReadonlyMap<string, number | Float64Array>

/** A metric that several threads count, each by itself, and one shows. */
export interface Relayed {
  readonly name: string
  /** What was counted since the last call. */
  counted(): CountedNumbers
  /** Counts what another thread has counted. */
  add(numbers: CountedNumbers): void
}

/** Of a metric without labels. */
const UNLABELLED = ''
const NOTHING: CountedNumbers = new Map()

/** The count of one set of labels. */
interface Cell {
  readonly labels: Labels
  value: number
  /** The part of it that `counted` has answered. */
  reported: number
}

/** Counts of one name, by labels. A set of labels is shown from its first count on. */
export class Counters<L extends string> implements Relayed {
  readonly name: string
  readonly #names: readonly L[]
  readonly #cells = new Map<string, Cell>()

  constructor({ labelNames, ...about }: Description & { readonly labelNames: readonly L[] }) {
    this.name = about.name
    this.#names = labelNames
    const cells = this.#cells
    new CounterMetric<string>({
      ...about,
      labelNames: [...labelNames],
      collect() {
        this.reset()
        for (const { labels, value } of cells.values()) this.inc(labels, value)
      }
    })
  }

  /** The counter of a set of labels; all that are made for one set count together. */
  labels(labels: Readonly<Record<L, string>>): Counter {
    return new Counter(() => this.#cell(labels))
  }

  /** Every set of labels with its count. */
  *read(): Generator<readonly [labels: Labels, count: number]> {
    for (const { labels, value } of this.#cells.values()) yield [labels, value]
  }

  /** Counts one, where the labels are known only now. */
  count(labels: Readonly<Record<L, string>>): void {
    this.#cell(labels).value++
  }

  counted(): CountedNumbers {
    const numbers = new Map<string, number>()
    for (const [key, cell] of this.#cells) {
      if (cell.value === cell.reported) continue
      numbers.set(key, cell.value - cell.reported)
      cell.reported = cell.value
    }
    return numbers
  }

  add(numbers: CountedNumbers): void {
    for (const [key, value] of numbers) if (typeof value === 'number') this.#cell(this.#labels(key)).value += value
  }

  #labels(key: string): Readonly<Record<L, string>> {
    const values: readonly string[] = this.#names.length === 1 ? [key] : JSON.parse(key)
    return Object.fromEntries(this.#names.map((name, place) => [name, values[place] ?? ''])) as Record<L, string>
  }

  #cell(labels: Readonly<Record<L, string>>): Cell {
    const [first] = this.#names
    const key = this.#names.length === 1 ? labels[first as L] : JSON.stringify(this.#names.map((name) => labels[name]))
    let cell = this.#cells.get(key)
    if (cell === undefined) {
      cell = { labels: { ...labels }, value: 0, reported: 0 }
      this.#cells.set(key, cell)
    }
    return cell
  }
}

/** Counts for one set of labels. */
class Counter {
  readonly #find: () => Cell
  #cell: Cell | undefined

  constructor(find: () => Cell) {
    this.#find = find
  }

  /** `by` is not negative. */
  inc(by = 1): void {
    this.#cell ??= this.#find()
    this.#cell.value += by
  }
}

export type { Counter }

/** One count, shown from the start. */
export class Total implements Relayed {
  readonly name: string
  #value = 0
  #reported = 0

  constructor(about: Description) {
    this.name = about.name
    const read = () => this.#value
    new CounterMetric({
      ...about,
      collect() {
        this.reset()
        this.inc(read())
      }
    })
  }

  inc(): void {
    this.#value++
  }

  counted(): CountedNumbers {
    const since = this.#value - this.#reported
    this.#reported = this.#value
    return since === 0 ? NOTHING : new Map([[UNLABELLED, since]])
  }

  add(numbers: CountedNumbers): void {
    const value = numbers.get(UNLABELLED)
    if (typeof value === 'number') this.#value += value
  }
}

/** How many there are now. */
export class Level implements Relayed {
  readonly name: string
  #value = 0
  #reported = 0

  get value(): number {
    return this.#value
  }

  constructor(about: Description) {
    this.name = about.name
    const read = () => this.#value
    new GaugeMetric({
      ...about,
      collect() {
        this.set(read())
      }
    })
  }

  inc(): void {
    this.#value++
  }

  dec(): void {
    this.#value--
  }

  counted(): CountedNumbers {
    const since = this.#value - this.#reported
    this.#reported = this.#value
    return since === 0 ? NOTHING : new Map([[UNLABELLED, since]])
  }

  add(numbers: CountedNumbers): void {
    const value = numbers.get(UNLABELLED)
    if (typeof value === 'number') this.#value += value
  }
}

/** How values are spread over ranges with upper bounds, in ascending order. */
class Distribution {
  readonly #bounds: readonly number[]
  /** Values in each range; the last are those above all bounds. */
  readonly #counts: number[]
  #sum = 0
  /** Counts and sum as `counted` has answered them. */
  #reported: Float64Array | undefined

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    const bounds = this.#bounds
    let at = 0
    while (at < bounds.length && value > (bounds[at] as number)) at++
    this.#counts[at] = (this.#counts[at] as number) + 1
    this.#sum += value
  }

  /** What was observed since the last call: the counts, then their sum; undefined: nothing. */
  counted(): Float64Array | undefined {
    const now = new Float64Array([...this.#counts, this.#sum])
    const before = this.#reported
    this.#reported = now
    const since = before === undefined ? now : now.map((value, place) => value - (before[place] as number))
    return since.some((value) => value !== 0) ? since : undefined
  }

  add(numbers: Float64Array): void {
    const { length } = this.#counts
    for (let i = 0; i < length; i++) this.#counts[i] = (this.#counts[i] as number) + (numbers[i] ?? 0)
    this.#sum += numbers[length] ?? 0
  }

  values(name: string, labels: Labels): SeriesValue[] {
    let below = 0
    const buckets = this.#counts.map((count, i): SeriesValue => {
      below += count
      return { metricName: `${name}_bucket`, labels: { ...labels, le: this.#bounds[i] ?? '+Inf' }, value: below }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: below }
    ]
  }
}

type SpreadDescription = Description & { readonly buckets: readonly number[] }

/** The library has no way to set the values of a histogram, so the one that is registered here answers those that `read` does. */
function registerHistogram(
  { buckets, ...about }: SpreadDescription & { readonly labelNames?: readonly string[] },
  read: () => SeriesValue[]
): void {
  const { name, help, labelNames = [] } = about
  const get = async () => ({ name, help, type: 'histogram', aggregator: 'sum', values: read() })
  const metric = new HistogramMetric<string>({ ...about, labelNames: [...labelNames], buckets: [...buckets] })
  Object.assign(metric, { get, getForPromString: get })
}

/** One distribution, shown from the start. */
export class Spread implements Relayed {
  readonly name: string
  readonly #values: Distribution

  constructor(about: SpreadDescription) {
    this.name = about.name
    const values = new Distribution(about.buckets)
    this.#values = values
    registerHistogram(about, () => values.values(about.name, {}))
  }

  observe(value: number): void {
    this.#values.observe(value)
  }

  counted(): CountedNumbers {
    const since = this.#values.counted()
    return since === undefined ? NOTHING : new Map([[UNLABELLED, since]])
  }

  add(numbers: CountedNumbers): void {
    const values = numbers.get(UNLABELLED)
    if (values instanceof Float64Array) this.#values.add(values)
  }
}

/** The label of all that have none of their own. */
const OTHER = 'other'

/**
 * Distributions of one name by one label. What has gone from the configuration is shown no more. At most `most` values of the label
 * have a distribution of their own; what comes beyond counts as `other` until one of them has gone.
 */
export class Spreads implements Relayed {
  readonly name: string
  readonly #bounds: readonly number[]
  readonly #most: number
  readonly #exists: (value: string) => boolean
  readonly #cells = new Map<string, Distribution>()
  #other: Distribution | undefined

  /** `exists`: is there still a thing of this name? */
  constructor({
    label,
    most,
    exists,
    ...about
  }: SpreadDescription & {
    readonly label: string
    readonly most: number
    readonly exists: (value: string) => boolean
  }) {
    this.#bounds = about.buckets
    this.#most = most
    this.#exists = exists
    const { name } = about
    this.name = name
    registerHistogram({ ...about, labelNames: [label] }, () => {
      this.#forget()
      const shown = [...this.#cells].flatMap(([value, cell]) => cell.values(name, { [label]: value }))
      return this.#other === undefined ? shown : [...shown, ...this.#other.values(name, { [label]: OTHER })]
    })
  }

  observe(label: string, value: number): void {
    const cell = this.#cells.get(label) ?? this.#begin(label)
    cell.observe(value)
  }

  counted(): CountedNumbers {
    const numbers = new Map<string, Float64Array>()
    for (const [label, cell] of [...this.#cells, [OTHER, this.#other] as const]) {
      const since = cell?.counted()
      if (since !== undefined) numbers.set(label, since)
    }
    return numbers
  }

  add(numbers: CountedNumbers): void {
    for (const [label, values] of numbers) {
      if (!(values instanceof Float64Array)) continue
      const cell = label === OTHER ? this.#rest() : (this.#cells.get(label) ?? this.#begin(label))
      cell.add(values)
    }
  }

  #begin(label: string): Distribution {
    // No scrape may have come for long.
    if (this.#cells.size >= this.#most && this.#other === undefined) this.#forget()
    if (this.#cells.size >= this.#most) return this.#rest()
    const cell = new Distribution(this.#bounds)
    this.#cells.set(label, cell)
    return cell
  }

  #rest(): Distribution {
    this.#other ??= new Distribution(this.#bounds)
    return this.#other
  }

  #forget(): void {
    for (const label of this.#cells.keys()) if (!this.#exists(label)) this.#cells.delete(label)
  }
}

interface SeriesValue {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}
