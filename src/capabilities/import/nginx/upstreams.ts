import { close, EXACT, type ImportedUpstream, notHere, type UpstreamServer } from '../model.js'
import type { Ledger } from '../report.js'
import { secondsOf } from './level.js'
import type { Directive } from './syntax.js'
import type { Variables } from './variables.js'

/** Reads an `upstream` block. */
export function readUpstream(
  { args: [name = ''], block = [], at }: Directive,
  ledger: Ledger,
  variables: Variables
): ImportedUpstream {
  const servers: UpstreamServer[] = []
  let balance: Partial<ImportedUpstream> = {}
  for (const directive of block) {
    if (directive.name === 'server') servers.push(...readServer(directive, ledger))
    else if (directive.name === 'least_conn') {
      balance = { balance: 'least_requests' }
      ledger.judge(directive.at, EXACT)
    } else if (directive.name === 'ip_hash' || directive.name === 'hash') {
      const hashKey = directive.name === 'ip_hash' ? 'conn.client_ip' : variables.cel(directive.args[0] ?? '')
      if (hashKey !== undefined) balance = { balance: 'hash', hashKey }
      const difference = 'the same key always gets the same server, but not the one that nginx chooses'
      ledger.judge(
        directive.at,
        hashKey === undefined ? notHere('its key has no expression', 'write hash_key') : close(difference)
      )
    } else if (directive.name === 'random') ledger.judge(directive.at, close('servers get requests in turn by weight'))
    else if (directive.name === 'sticky')
      ledger.judge(directive.at, notHere('it belongs to the commercial edition', 'write sticky: { cookie: NAME }'))
  }
  return { name, servers, ...balance, at, verdict: EXACT }
}

function readServer({ args: [address = '', ...parameters], at }: Directive, ledger: Ledger): UpstreamServer[] {
  const differences: string[] = []
  let weight: number | undefined
  let backup = false
  for (const parameter of parameters) {
    const [key, value = ''] = parameter.split('=')
    if (key === 'weight') weight = Number(value)
    else if (key === 'backup') backup = true
    else if (key === 'down') {
      ledger.judge(at, EXACT)
      return []
    } else if (key === 'max_fails' || key === 'fail_timeout') {
      const seconds = key === 'fail_timeout' ? secondsOf(value) : 0
      if (value !== '0' && seconds !== undefined)
        differences.push('failures are counted by passive_health of the backend')
    } else differences.push(`${key} is not taken over`)
  }
  ledger.judge(at, differences.length === 0 ? EXACT : close([...new Set(differences)].join('; ')))
  const port = address.startsWith('unix:') || /:\d+$/.test(address) ? address : `${address}:80`
  return [
    {
      url: `http://${port}`,
      ...(weight === undefined || weight === 1 ? {} : { weight }),
      ...(backup ? { backup } : {})
    }
  ]
}
