import type { TSchema } from 'typebox'
import type { Flow } from '../../flow/flow.js'
import { type Regex, withGroupReferences } from '../../lib/regex.js'
import type { Replacing, Scope } from '../../policy/action.js'
import type { NodePath } from '../../policy/problems.js'
import { compilePattern } from '../../policy/values.js'
import { list, object, optional, regex, template } from '../../schema/values.js'

/** How many times its limit a text may be estimated to grow to before it is given up without being made. */
const SLACK = 16
const GROUPS = /\$(?:\d{1,2}|\{\w+\}|<\w+>)/g

/** `replacements` of the find-replace actions; `more` are fields of each entry that only one action has. */
export function replacements(more: Record<string, TSchema> = {}) {
  const entry = object(
    {
      from: regex({ description: 'RE2 pattern; every match is replaced.' }),
      to: optional(
        template({ description: 'What takes the place of a match; $1 stands for a group. Nothing when left out.' })
      ),
      ...more
    },
    { description: 'A replacement.' }
  )
  return list(entry, { description: 'Applied in order, each to the result of the one before.', min: 1 })
}

/** One entry, compiled. Both throw `EvaluationError`. */
export interface Replacement {
  from(flow: Flow): Regex
  to(flow: Flow): string
}

/** What a replacement found, as it is published. */
export interface Found {
  /** From 0. */
  readonly replacement_index: number
  /** The first match. */
  readonly matched_content: string
}

/** What an action with `replacements` replaces, for those who look at its groups. */
export function replacing({
  replacements: list
}: {
  readonly replacements: readonly { readonly from: string; readonly to?: string }[]
}): readonly Replacing[] {
  return list.map(({ from, to = '' }, i) => ({
    from,
    to: withGroupReferences(to, from),
    at: ['replacements', i, 'to']
  }))
}

export function compileReplacement(
  { from, to = '' }: { readonly from: string; readonly to?: string },
  at: NodePath,
  scope: Scope
): Replacement {
  const replacement = scope.template(withGroupReferences(to, from), [...at, 'to'])
  return { from: compilePattern(from, [...at, 'from'], scope), to: (flow) => replacement.text(flow) }
}

/** One replacement with its values for one message. */
export interface Step {
  readonly from: string
  /** Undefined: it has no value, which matters only where `from` matches. */
  readonly to: string | undefined
}

export type Outcome =
  | { readonly kind: 'replaced'; readonly text: string; readonly found: readonly Found[] }
  /** The text would become longer than it may. */
  | { readonly kind: 'too-large' }
  /** `from` of the step at `index` matched, and its `to` has no value. */
  | { readonly kind: 'no-value'; readonly index: number }

/** The bounds of the replacements of one text. */
export interface ReplaceLimits {
  /** Characters that the text may have in the end. */
  readonly limit: number
  /** Milliseconds for each replacement. */
  readonly longest?: number
}

/** Applies `steps` in order to `text`. `regexes`: the compiled `from` of each. Throws `RegexTooSlow`. */
export function replaceInOrder(
  text: string,
  steps: readonly Step[],
  regexes: readonly Regex[],
  limits: ReplaceLimits
): Outcome {
  const found: Found[] = []
  let current = text
  for (const [index, { to }] of steps.entries()) {
    const regex = regexes[index] as Regex
    const match = regex.exec(current)
    if (match === undefined) continue
    if (to === undefined) return { kind: 'no-value', index }
    found.push({ replacement_index: index, matched_content: match.groups[0] ?? '' })
    const replaced = replaceWithin(regex, current, to, limits)
    if (replaced === undefined) return { kind: 'too-large' }
    current = replaced
  }
  return { kind: 'replaced', text: current, found }
}

/**
 * `text` with every match of `regex` replaced, or undefined when that is longer than `limit` characters. What it takes is
 * bounded before it is made: a short pattern and a long replacement turn a small text into gigabytes.
 */
function replaceWithin(regex: Regex, text: string, to: string, { limit, longest }: ReplaceLimits): string | undefined {
  const groups = to.match(GROUPS)?.length ?? 0
  // All matches together hold no more text than there is, and neither do all captures of one group.
  const room = limit * SLACK - text.length * (1 + groups)
  const matches = () => regex.replaceAll(text, 'x$0', longest).length - text.length
  if ((text.length + 1) * to.length > room && matches() * to.length > room) return undefined
  const replaced = regex.replaceAll(text, to, longest)
  return replaced.length > limit ? undefined : replaced
}
