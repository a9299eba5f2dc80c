import { compileHashKey } from '../runtime/hash-key.js'
import type { Balance } from '../runtime/plan.js'
import { choice, number, text } from '../schema/fields.js'
import { object, type Rule, type RuleView } from '../schema/objects.js'

const YEAR = 31_536_000
/** Longest expression, in UTF-16 units. */
const LONGEST_KEY = 1_000
/** Maximum length of a cookie name. Browsers keep 4,096 bytes of name, value and attributes, and Sluice generates the value. */
const LONGEST_NAME = 64
/** Maximum length of a cookie path. */
const LONGEST_PATH = 512

const STICKY = {
  cookie: text({
    description: 'Name of the cookie; empty: one that no other backend has.',
    bytes: LONGEST_NAME,
    examples: ['shop-server']
  }),
  ttl: number({
    description:
      'Seconds that the cookie lasts, renewed when half of them have passed; 0: as long as the browser runs.',
    min: 0,
    max: YEAR,
    default: 0,
    unit: 'seconds'
  }),
  path: text({ description: 'Path below which the browser sends the cookie; empty: /.', bytes: LONGEST_PATH }),
  same_site: choice(['lax', 'strict', 'none'], {
    description: 'SameSite of the cookie; none holds over TLS alone, and is lax without it.',
    default: 'lax'
  })
}

/** Returns the load-balancing fields of a backend. `members`: noun for its members in descriptions. */
export function balanceFields(members: string) {
  return {
    balance: choice(['round_robin', 'least_requests', 'hash'], {
      description: `round_robin: in turn, by weight. least_requests: the one that carries the fewest requests for its weight. hash: requests with the same hash_key have the same ${members} as long as it is up.`,
      default: 'round_robin'
    }),
    hash_key: text({
      description:
        'With balance hash: an expression of CEL over conn, endpoint and req whose value says which requests belong together. One without a value, or with an empty one, goes in turn.',
      max: LONGEST_KEY,
      examples: ["req.headers['x-user'][0]"]
    }),
    sticky: object(STICKY, {
      description: `A sealed cookie by which a client of HTTP keeps its ${members} as long as it is up, before balance is asked; null: none.`,
      rules: [
        { on: ['cookie'], check: cookieFits },
        { on: ['path'], check: pathFits }
      ]
    })
  }
}

/** Rules for the fields of `balanceFields`. */
export const balanceRules: readonly Rule[] = [{ on: ['balance', 'hash_key'], check: keyFits }]

function keyFits({ body, report }: RuleView): void {
  const source = body.hash_key as string
  if (body.balance !== 'hash') {
    if (source !== '') report('hash_key', 'CONFLICTING_FIELDS', 'goes with balance hash alone')
    return
  }
  if (source === '') {
    report('hash_key', 'FIELD_REQUIRED', 'is required with balance hash')
    return
  }
  const compiled = compileHashKey(source)
  if (!compiled.ok) report('hash_key', 'FIELD_INVALID', `at ${compiled.start + 1}: ${compiled.message}`)
}

function cookieFits({ body, report }: RuleView): void {
  const name = body.cookie as string
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]*$/.test(name)) {
    report('cookie', 'FIELD_INVALID', 'must be a name of a cookie: letters, digits and marks such as - and _')
  } else if (/^__(?:host|secure)-/i.test(name)) {
    report('cookie', 'FIELD_INVALID', 'must not begin with __Host- or __Secure-, which browsers take over TLS alone')
  }
}

function pathFits({ body, report }: RuleView): void {
  const path = body.path as string
  if (path === '' || /^\/[\x21-\x3a\x3c-\x7e]*$/.test(path)) return
  report('path', 'FIELD_INVALID', 'must begin with / and hold visible ASCII without ;')
}

interface BalanceBody {
  readonly balance: string
  readonly hash_key?: string
  readonly sticky?: {
    readonly cookie: string
    readonly ttl: number
    readonly path: string
    readonly same_site: string
  } | null
}

const SAME_SITE = { lax: 'Lax', strict: 'Strict', none: 'None' } as const

/** Returns the balancing part of a unit from the fields of the record with this id. */
export function balanceOf(id: string, { balance, hash_key: hashKey = '', sticky }: BalanceBody): Balance {
  return {
    ...(balance === 'least_requests' ? { balance } : {}),
    ...(balance === 'hash' ? { balance, hashKey } : {}),
    ...(sticky == null
      ? {}
      : {
          sticky: {
            cookie: sticky.cookie === '' ? `sluice-${id.slice(id.indexOf('_') + 1)}` : sticky.cookie,
            path: sticky.path === '' ? '/' : sticky.path,
            sameSite: SAME_SITE[sticky.same_site as keyof typeof SAME_SITE],
            ...(sticky.ttl > 0 ? { ttl: Math.round(sticky.ttl * 1_000) } : {})
          }
        })
  }
}
