import type { TSchema } from 'typebox'
import type { Flow } from '../../flow/flow.js'
import { type Regex, withGroupReferences } from '../../lib/regex.js'
import type { Replacing, Scope } from '../../policy/action.js'
import type { NodePath } from '../../policy/problems.js'
import { compilePattern } from '../../policy/values.js'
import { list, object, optional, regex, template } from '../../schema/values.js'

/** Maximum ratio of an estimated size to the limit before the result is computed at all. */
const SLACK = 16
/** Group references in a replacement. */
const GROUPS = /\$(?:\d{1,2}|\{\w+\}|<\w+>)/g

/** Returns the schema of `replacements`; `more`: additional fields of each entry. */
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

/** Compiled entry. Both functions throw `EvaluationError`. */
export interface Replacement {
  from(flow: Flow): Regex
  to(flow: Flow): string
}

/** Published match of a replacement. */
export interface Found {
  /** From 0. */
  readonly replacement_index: number
  /** First match. */
  readonly matched_content: string
}

/** Returns the compiled replacements of an action, for callers that use the groups. */
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

/** Replacement with its values for one message. */
export interface Step {
  readonly from: string
  /** Text that replaces a match of `from`; undefined if its value is missing, which matters only if `from` matches. */
  readonly to: string | undefined
}

export type Outcome =
  | { readonly kind: 'replaced'; readonly text: string; readonly found: readonly Found[] }
  /** The result would exceed the limit. */
  | { readonly kind: 'too-large' }
  /** `from` of the step at `index` matched, and its `to` has no value. */
  | { readonly kind: 'no-value'; readonly index: number }

/** Limits for the replacements of one text. */
export interface ReplaceLimits {
  /** Maximum length of the result (characters). */
  readonly limit: number
  /** Timeout of each replacement (ms). */
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
 * Replaces every match of `regex`; undefined if the result exceeds `limit` characters. The size is estimated first, because a short pattern
 * and a long replacement turn a small text into gigabytes.
 */
function replaceWithin(regex: Regex, text: string, to: string, { limit, longest }: ReplaceLimits): string | undefined {
  const groups = to.match(GROUPS)?.length ?? 0
  // All matches together are at most as long as the text, and so are all captures of one group.
  const room = limit * SLACK - text.length * (1 + groups)
  const matches = () => regex.replaceAll(text, 'x$0', longest).length - text.length
  if ((text.length + 1) * to.length > room && matches() * to.length > room) return undefined
  const replaced = regex.replaceAll(text, to, longest)
  return replaced.length > limit ? undefined : replaced
}
