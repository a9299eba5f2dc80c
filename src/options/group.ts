import type { TSchema } from 'typebox'

/** Options of the process that a capability declares. */
export interface OptionGroup {
  /** Option of the kernel behind which they are listed. Groups behind the same option keep their order. */
  readonly after: string
  readonly options: Readonly<Record<string, TSchema>>
}

type Intersection<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** Returns the options of the kernel with those of the groups in their places. Throws a RangeError for a place that is not there. */
export function withGroups<K extends Readonly<Record<string, TSchema>>, G extends readonly OptionGroup[]>(
  kernel: K,
  groups: G
): K & Intersection<G[number]['options']> {
  const stray = groups.find(({ after }) => !Object.hasOwn(kernel, after))
  if (stray !== undefined) throw new RangeError(`there is no option ${stray.after}`)
  const placed = Object.entries(kernel).flatMap(([name, schema]) => [
    [name, schema] as const,
    ...groups.filter(({ after }) => after === name).flatMap(({ options }) => Object.entries(options))
  ])
  return Object.fromEntries(placed) as K & Intersection<G[number]['options']>
}

/** Options that variables of another program set, and variables that cannot be followed. */
export interface ForeignOptions {
  /** `option`: path of the option. */
  readonly options: readonly { readonly variable: string; readonly option: string; readonly text: string }[]
  /** `message` gives the reason. */
  readonly problems: readonly {
    readonly severity: 'error' | 'warning'
    readonly variable: string
    readonly option: string
    readonly message: string
  }[]
}

/** Reads variables that are not those of Sluice. */
export type ForeignEnvironment = (environment: Readonly<Record<string, string | undefined>>) => ForeignOptions
