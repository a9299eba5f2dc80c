import { close, EXACT, notHere, type Verdict } from '../model.js'
import type { Ledger } from '../report.js'
import { type User, valueAfter } from './rules.js'
import type { HaproxySection } from './syntax.js'

/** Keywords of proxies that are judged where they are read. */
const READ = ['server', 'server-template', 'dispatch', 'balance', 'cookie', 'http-check', 'timeout']

/** Users of a `userlist`. */
export function usersOf({ lines }: HaproxySection, ledger: Ledger): User[] {
  return lines.flatMap(({ words, at }) => {
    const [keyword, name = ''] = words
    if (keyword !== 'user') {
      ledger.judge(at, notHere('groups of users are not converted', 'write a rule with the names of the users'))
      return []
    }
    const password = valueAfter(words, 'insecure-password')
    ledger.judge(
      at,
      password === undefined
        ? notHere('hashes of crypt are not known here', 'make one by `sluice hash-password`')
        : EXACT
    )
    return [{ name, ...(password === undefined ? {} : { password }) }]
  })
}

const EXACT_LINES = [
  'acl',
  'mode',
  'bind',
  'default-server',
  'default_backend',
  'use_backend',
  'option forwardfor',
  'option http-server-close',
  'option http-keep-alive',
  'option redispatch',
  'option httplog',
  'option tcplog',
  'option dontlognull',
  'no option httpclose',
  'description'
]

/** The verdict of a line that no part of the reader has judged. */
export function usualVerdict(text: string): Verdict {
  if (EXACT_LINES.some((line) => text === line || text.startsWith(`${line} `))) return EXACT
  const [first = ''] = text.split(' ')
  if (READ.includes(first)) return close('no section that was converted uses it')
  if (/^(?:log|option log|option dontlog|capture|unique-id|errorfile|errorloc|errorfiles)/.test(text))
    return close('options of Sluice say it: access_log_*, error_pages of a site')
  return close('an option of the process, or nothing that was converted uses it (docs/reference/options.md)')
}
