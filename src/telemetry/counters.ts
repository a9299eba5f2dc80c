import {
  Counter as CounterMetric,
  Gauge as GaugeMetric,
  Histogram as HistogramMetric,
  type Registry
} from 'prom-client'
import { ownMemory, type SeriesMemory } from './series-memory.js'

/*
 * Metrics of traffic. Each is a plain number that a request increments; the metrics library, whose counters cost half a microsecond each,
 * reads them at a scrape.
 */

export interface Description {
  readonly name: string
  readonly help: string
  readonly registers: Registry[]
  /** Memory of the numbers. @default not shared with other threads */
  readonly memory?: SeriesMemory | undefined
  /** List of the metrics that several threads count; the metric adds itself. @default counted by this thread alone */
  readonly relayed?: Relayed[]
  /** @default labels are shown as they are counted */
  readonly shown?: ShownLabel | undefined
}

type Labels = Readonly<Record<string, string>>

/**
 * Returns the shown value of a label, such as the name of a unit for its id; undefined if it is not known: the value that was shown last stays.
 * Series with the same shown labels are added up.
 */
export type ShownLabel = (label: string, value: string) => string | undefined

/** Metric that several threads count and one thread exposes. */
export interface Relayed {
  readonly name: string
  /** Adds the counts of one series from another thread: as many numbers as its memory has. */
  add(series: string, numbers: Float64Array): void
}

/** Series id of a metric without labels. */
const UNLABELLED = ''

/** Count of one label set. */
interface Cell {
  readonly labels: Labels
  /** Labels as they were shown last. */
  readonly shown: Record<string, string>
  /** A single number. */
  readonly count: Float64Array
}

/** Updates the shown labels of a series. */
function show(cell: Pick<Cell, 'labels' | 'shown'>, shown: ShownLabel | undefined): Labels {
  if (shown === undefined) return cell.labels
  for (const [label, value] of Object.entries(cell.labels))
    cell.shown[label] = shown(label, value) ?? cell.shown[label] ?? value
  return cell.shown
}

/** Counters of one name, by label set. A label set is exposed from its first count on. */
export class Counters<L extends string> implements Relayed {
  readonly name: string
  readonly #names: readonly L[]
  readonly #cells = new Map<string, Cell>()
  readonly #memory: SeriesMemory

  constructor({
    labelNames,
    memory = ownMemory,
    relayed,
    shown,
    ...about
  }: Description & { readonly labelNames: readonly L[] }) {
    this.name = about.name
    relayed?.push(this)
    this.#memory = memory
    this.#names = labelNames
    const cells = this.#cells
    new CounterMetric<string>({
      ...about,
      labelNames: [...labelNames],
      collect() {
        this.reset()
        for (const cell of cells.values()) this.inc(show(cell, shown), cell.count[0])
      }
    })
  }

  /** Returns the counter of a label set; all counters of one set share their count. */
  labels(labels: Readonly<Record<L, string>>): Counter {
    return new Counter(() => this.#cell(labels).count)
  }

  /** Returns every label set with its count. */
  *read(): Generator<readonly [labels: Labels, count: number]> {
    for (const { labels, count } of this.#cells.values()) yield [labels, count[0] as number]
  }

  /** Increments the counter of a label set that is not known in advance. */
  count(labels: Readonly<Record<L, string>>): void {
    increase(this.#cell(labels).count, 1)
  }

  add(series: string, [value = 0]: Float64Array): void {
    increase(this.#cell(this.#labels(series)).count, value)
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
      cell = { labels: { ...labels }, shown: { ...labels }, count: this.#memory.allot(this.name, key, 1) }
      this.#cells.set(key, cell)
    }
    return cell
  }
}

/** Counter of one label set. */
class Counter {
  readonly #find: () => Float64Array
  #count: Float64Array | undefined

  constructor(find: () => Float64Array) {
    this.#find = find
  }

  /** `by` is not negative. */
  inc(by = 1): void {
    this.#count ??= this.#find()
    increase(this.#count, by)
  }
}

function increase(count: Float64Array, by: number): void {
  count[0] = (count[0] as number) + by
}

export type { Counter }

/** Number without labels, exposed from the start. */
abstract class Single implements Relayed {
  readonly name: string
  readonly #count: Float64Array

  constructor({ name, memory = ownMemory, relayed }: Description) {
    this.name = name
    this.#count = memory.allot(name, UNLABELLED, 1)
    relayed?.push(this)
  }

  get value(): number {
    return this.#count[0] as number
  }

  inc(by = 1): void {
    increase(this.#count, by)
  }

  add(_series: string, [value = 0]: Float64Array): void {
    this.inc(value)
  }
}

/** Counter without labels. */
export class Total extends Single {
  constructor(description: Description) {
    super(description)
    showCounter(description, () => this.value)
  }
}

/** Gauge without labels. */
export class Level extends Single {
  constructor(description: Description) {
    super(description)
    showGauge(description, () => this.value)
  }

  dec(): void {
    this.inc(-1)
  }
}

type Named = Pick<Description, 'name' | 'help' | 'registers'>

/** Registers a counter without labels; `read` returns its value at each scrape. */
export function showCounter({ name, help, registers }: Named, read: () => number): void {
  new CounterMetric({
    ...{ name, help, registers },
    collect() {
      this.reset()
      this.inc(read())
    }
  })
}

/** Registers a gauge without labels; `read` returns its value at each scrape, undefined for none. */
export function showGauge({ name, help, registers }: Named, read: () => number | undefined): void {
  new GaugeMetric({
    ...{ name, help, registers },
    collect() {
      const value = read()
      if (value === undefined) this.remove()
      else this.set(value)
    }
  })
}

/** Histogram over ranges with ascending upper bounds. */
class Distribution {
  readonly #bounds: readonly number[]
  /** Number of values in each range, then above all bounds, then the sum of all values. */
  readonly numbers: Float64Array

  /** `numbers`: length of the bounds plus two. */
  constructor(bounds: readonly number[], numbers: Float64Array) {
    this.#bounds = bounds
    this.numbers = numbers
  }

  observe(value: number): void {
    const bounds = this.#bounds
    const { numbers } = this
    let at = 0
    while (at < bounds.length && value > (bounds[at] as number)) at++
    numbers[at] = (numbers[at] as number) + 1
    numbers[bounds.length + 1] = (numbers[bounds.length + 1] as number) + value
  }

  add(others: Float64Array): void {
    const { numbers } = this
    for (let i = 0; i < numbers.length; i++) numbers[i] = (numbers[i] as number) + (others[i] ?? 0)
  }

  values(name: string, labels: Labels): SeriesValue[] {
    let below = 0
    const buckets = [...this.#bounds, '+Inf'].map((le, i): SeriesValue => {
      below += this.numbers[i] as number
      return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: below }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.numbers.at(-1) as number },
      { metricName: `${name}_count`, labels, value: below }
    ]
  }
}

type SpreadDescription = Description & { readonly buckets: readonly number[] }

/** Registers a histogram whose values come from `read`, because the library cannot set them. */
function registerHistogram(
  { buckets, ...about }: SpreadDescription & { readonly labelNames?: readonly string[] },
  read: () => SeriesValue[]
): void {
  const { name, help, labelNames = [] } = about
  const get = async () => ({ name, help, type: 'histogram', aggregator: 'sum', values: read() })
  const metric = new HistogramMetric<string>({ ...about, labelNames: [...labelNames], buckets: [...buckets] })
  Object.assign(metric, { get, getForPromString: get })
}

/** Histogram without labels, exposed from the start. */
export class Spread implements Relayed {
  readonly name: string
  readonly #values: Distribution

  constructor({ memory = ownMemory, relayed, ...about }: SpreadDescription) {
    this.name = about.name
    relayed?.push(this)
    const { name, buckets } = about
    const values = new Distribution(buckets, memory.allot(name, UNLABELLED, buckets.length + 2))
    this.#values = values
    registerHistogram(about, () => values.values(about.name, {}))
  }

  observe(value: number): void {
    this.#values.observe(value)
  }

  add(_series: string, numbers: Float64Array): void {
    this.#values.add(numbers)
  }
}

/** Label of all values without a histogram of their own. */
const OTHER = 'other'

/**
 * Histograms of one name by one counted value. Values that the configuration no longer has are not exposed. At most `most` values have a histogram
 * of their own; further ones count as `other` until one is removed.
 */
export class Spreads implements Relayed {
  readonly name: string
  readonly #bounds: readonly number[]
  readonly #most: number
  readonly #exists: (value: string) => boolean
  readonly #memory: SeriesMemory
  readonly #cells = new Map<string, Distribution>()
  #other: Distribution | undefined

  /** `exists`: returns true if the configuration still has this value. */
  constructor({
    labelNames,
    labelsOf,
    most,
    exists,
    memory = ownMemory,
    relayed,
    ...about
  }: SpreadDescription & {
    readonly labelNames: readonly string[]
    /** Returns the shown labels of a counted value; values with the same labels are added up. */
    readonly labelsOf: (value: string) => Labels
    readonly most: number
    readonly exists: (value: string) => boolean
  }) {
    this.#bounds = about.buckets
    this.#memory = memory
    this.#most = most
    this.#exists = exists
    const { name } = about
    this.name = name
    relayed?.push(this)
    registerHistogram({ ...about, labelNames }, () => {
      this.#forget()
      const all = new Map<string, { readonly labels: Labels; readonly sum: Distribution }>()
      const add = (labels: Labels, cell: Distribution) => {
        const key = JSON.stringify(labels)
        const known = all.get(key)
        if (known !== undefined) known.sum.add(cell.numbers)
        else all.set(key, { labels, sum: new Distribution(this.#bounds, Float64Array.from(cell.numbers)) })
      }
      for (const [value, cell] of this.#cells) add(labelsOf(value), cell)
      if (this.#other !== undefined) add(Object.fromEntries(labelNames.map((label) => [label, OTHER])), this.#other)
      return [...all.values()].flatMap(({ labels, sum }) => sum.values(name, labels))
    })
  }

  observe(label: string, value: number): void {
    const cell = this.#cells.get(label) ?? this.#begin(label)
    cell.observe(value)
  }

  add(label: string, numbers: Float64Array): void {
    const cell = label === OTHER ? this.#rest() : (this.#cells.get(label) ?? this.#begin(label))
    cell.add(numbers)
  }

  #begin(label: string): Distribution {
    // The last scrape may have been long ago.
    if (this.#cells.size >= this.#most && this.#other === undefined) this.#forget()
    if (this.#cells.size >= this.#most) return this.#rest()
    const cell = this.#distribution(label)
    this.#cells.set(label, cell)
    return cell
  }

  #rest(): Distribution {
    this.#other ??= this.#distribution(OTHER)
    return this.#other
  }

  #distribution(label: string): Distribution {
    return new Distribution(this.#bounds, this.#memory.allot(this.name, label, this.#bounds.length + 2))
  }

  #forget(): void {
    for (const [label, { numbers }] of this.#cells) {
      if (this.#exists(label)) continue
      this.#cells.delete(label)
      this.#memory.free(numbers)
    }
  }
}

interface SeriesValue {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}
