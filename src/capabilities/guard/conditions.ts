import { ControlError } from '../../control/errors.js'
import { type Guard, RATES, type RateName } from '../../control/guard-note.js'
import { formatDuration, parseDuration } from '../../lib/units.js'
import { guardErrors } from './errors.js'

const BAKE = { least: 1_000, most: 24 * 3_600_000, absent: 30_000 }
const LEAST = { least: 1, most: 1_000_000, absent: 50 }
const LONGEST_TEXT = 1_000
const NAMES = ['bake', 'min-requests', ...Object.keys(RATES), 'changed-decisions']
const SHARE = /^(\+?)(\d{1,3}(?:\.\d{1,3})?)%$/

/**
 * Reads a guard such as `bake=30s; error-rate=+2%; min-requests=50`: parts that `;` or `,` separates, whose values may be in
 * double quotes, so that a dictionary of strings (RFC 9651 3.2) is one too. Fails with `GUARD_INVALID`.
 */
export function readGuard(text: string): Guard {
  if (text.length > LONGEST_TEXT) throw invalid('guard', `is longer than ${LONGEST_TEXT} characters`)
  const given = new Map<string, string>()
  for (const part of text.split(/[;,]/)) {
    if (part.trim() === '') continue
    const [, name = '', quoted, bare = ''] = /^\s*([a-z-]+)\s*=\s*(?:"([^"]*)"|([^\s"]*))\s*$/.exec(part) ?? []
    if (!NAMES.includes(name)) throw invalid(part.trim().slice(0, 64), `is no condition; there are ${NAMES.join(', ')}`)
    if (given.has(name)) throw invalid(name, 'stands twice')
    given.set(name, quoted ?? bare)
  }
  const rates = (Object.keys(RATES) as RateName[]).flatMap((name) => {
    const value = given.get(name)
    return value === undefined ? [] : [{ name, ...readShare(name, value) }]
  })
  const changed = given.get('changed-decisions')
  const limit = changed === undefined ? undefined : readShare('changed-decisions', changed)
  if (limit?.relative === true) throw invalid('changed-decisions', 'is a share such as 5%, without +')
  if (rates.length === 0 && limit === undefined) {
    throw invalid('guard', `has no condition that could break; there are ${NAMES.slice(2).join(', ')}`)
  }
  return {
    bake: readBake(given.get('bake')),
    least: readLeast(given.get('min-requests')),
    rates,
    changed: limit?.share
  }
}

/** The guard as `readGuard` takes it, with every default. */
export function guardText({ bake, least, rates, changed }: Guard): string {
  const shares = rates.map(({ name, relative, share }) => `${name}=${relative ? '+' : ''}${percent(share)}`)
  const rest = changed === undefined ? [] : [`changed-decisions=${percent(changed)}`]
  return [`bake=${formatDuration(bake)}`, ...shares, ...rest, `min-requests=${least}`].join('; ')
}

/** A share of 0 to 1 with at most three digits behind the point. */
export function percent(share: number): string {
  return `${Number((share * 100).toFixed(3))}%`
}

function readShare(name: string, value: string): { readonly relative: boolean; readonly share: number } {
  const [, plus = '', number = ''] = SHARE.exec(value) ?? []
  const share = number === '' ? Number.NaN : Number(number) / 100
  if (!(share <= 1)) throw invalid(name, 'must be a share such as 2%, or +2% for so much more than before')
  return { relative: plus !== '', share }
}

function readBake(value: string | undefined): number {
  if (value === undefined) return BAKE.absent
  const bake = parseDuration(value)
  if (bake !== undefined && bake >= BAKE.least && bake <= BAKE.most) return bake
  throw invalid(
    'bake',
    `must be a duration from ${formatDuration(BAKE.least)} to ${formatDuration(BAKE.most)}, such as 30s`
  )
}

function readLeast(value: string | undefined): number {
  if (value === undefined) return LEAST.absent
  const least = /^\d{1,7}$/.test(value) ? Number(value) : Number.NaN
  if (least >= LEAST.least && least <= LEAST.most) return least
  throw invalid('min-requests', `must be a whole number from ${LEAST.least} to ${LEAST.most}`)
}

function invalid(part: string, reason: string): ControlError {
  const message = part === 'guard' ? `the guard ${reason}` : `${part} of the guard ${reason}`
  return new ControlError(guardErrors.GUARD_INVALID, message, { details: { part } })
}
