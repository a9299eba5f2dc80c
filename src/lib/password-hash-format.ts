/** Format of a supported password hash. */
type PasswordHashFormat = 'bcrypt' | 'argon2id' | 'apr1'

/** Classification of a text as a password hash: supported, rejected with a reason, or not a hash. */
export type ReadPasswordHash =
  | { readonly kind: 'hash'; readonly format: PasswordHashFormat }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'none' }

/** Maximum cost of bcrypt: each step doubles the work, and 14 takes about a second. */
const MAX_BCRYPT_COST = 14
/** Maximum memory (KiB), iterations and lanes of Argon2id: 64 MiB and about a second. */
const MAX_ARGON2 = { memory: 65_536, iterations: 10, lanes: 16 } as const

const APR1 = /^\$apr1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}$/
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/
const ARGON2ID = /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{16,86}$/
/** Prefixes of hashes by crypt(3), htpasswd or LDAP. */
const LOOKS_HASHED =
  /^(?:\$(?:apr1|2[abxy]?|argon2(?:id|i|d)|1|5|6|7|y|gy|scrypt|pbkdf2[a-z0-9-]*)\$|\{(?:SSHA|SHA|CRYPT|MD5|SMD5)\}|(?:pbkdf2|bcrypt|argon2|scrypt|md5|sha1|sha256)(?:_\w+)?\$|(?:pbkdf2|scrypt):[\w:]+\$)/i

const MAKE = 'make one with "sluice hash-password"'

/** Reads the hash of a password in the forms of htpasswd (`$2y$`, `$apr1$`) and of Argon2 (RFC 9106, PHC string format). */
export function readPasswordHash(text: string): ReadPasswordHash {
  if (APR1.test(text)) return { kind: 'hash', format: 'apr1' }
  const cost = BCRYPT.exec(text)?.[1]
  if (cost !== undefined) return bcrypt(Number(cost))
  const argon2 = ARGON2ID.exec(text)
  if (argon2 !== null) return argon2id(argon2.slice(1, 4).map(Number) as [number, number, number])
  if (/^\$\$(?:apr1|2[aby]|argon2id)\$\$/.test(text))
    return refused('this hash has each "$" twice, as files for Docker Compose do; write each once')
  if (LOOKS_HASHED.test(text)) return refused(`hashes of passwords are bcrypt, argon2id or apr1; ${MAKE}`)
  return { kind: 'none' }
}

function bcrypt(cost: number): ReadPasswordHash {
  return cost >= 4 && cost <= MAX_BCRYPT_COST
    ? { kind: 'hash', format: 'bcrypt' }
    : refused(`the cost of bcrypt is 4 to ${MAX_BCRYPT_COST}`)
}

function argon2id([memory, iterations, lanes]: [number, number, number]): ReadPasswordHash {
  const isFit =
    lanes >= 1 &&
    lanes <= MAX_ARGON2.lanes &&
    iterations >= 1 &&
    iterations <= MAX_ARGON2.iterations &&
    memory >= 8 * lanes &&
    memory <= MAX_ARGON2.memory
  return isFit
    ? { kind: 'hash', format: 'argon2id' }
    : refused(
        `argon2id takes m up to ${MAX_ARGON2.memory}, t up to ${MAX_ARGON2.iterations} and p up to ${MAX_ARGON2.lanes}`
      )
}

function refused(reason: string): ReadPasswordHash {
  return { kind: 'refused', reason }
}
