import { isInternal } from '../flow/flow.js'
import { type Formed, formed, readDomain, readHostname, refuse } from '../lib/host.js'

const BIND = 'bind:'
/** Agents open no port below; those belong to the services of the machine. */
const FIRST_PORT = 1024
const TARGETS = 'must name a domain, host:port or <key>=<value> after "bind:"'

/**
 * A rule of what a credential may bind: `*`, or `bind:` with a domain, `*.<domain>` for every name below it, `host:port` or
 * `<key>=<value>`, each side a whole text or `*`. What no agent could ever bind is refused. `readAddress` reads host:port.
 */
export function readAclRule(text: string, readAddress: (text: string) => Formed): Formed {
  if (text === '*') return formed(text)
  if (!text.startsWith(BIND)) return refuse('must be "*" or "bind:<target>"')
  const target = text.slice(BIND.length)
  const read = target.includes('=') ? readLabel(target) : /:\d+$/.test(target) ? readTcp(target) : readName(target)
  return read.ok ? formed(`${BIND}${read.text}`) : read

  function readTcp(address: string): Formed {
    const found = readAddress(address)
    if (!found.ok) return refuse(`${found.refused} after "bind:"`)
    const colon = found.text.lastIndexOf(':')
    if (isInternal(found.text.slice(0, colon))) return refuse(INTERNAL)
    return Number(found.text.slice(colon + 1)) < FIRST_PORT
      ? refuse(`must name a port from ${FIRST_PORT} on, or the domain alone for http and https`)
      : found
  }
}

const INTERNAL = 'must not name an internal host: agents bind none'

function readLabel(target: string): Formed {
  const equals = target.indexOf('=')
  const sides = [target.slice(0, equals), target.slice(equals + 1)]
  if (sides.some((side) => side === '') || sides[1]?.includes('=')) {
    return refuse('must name a label as <key>=<value>; either may be "*"')
  }
  if (sides.some((side) => side !== '*' && side.includes('*'))) {
    return refuse('may have "*" as the whole key or the whole value of a label only')
  }
  if (sides.some((side) => side !== side.trim()))
    return refuse('must not have blanks around the key or value of a label')
  return formed(target)
}

/** A wildcard may stand above any name, also above one label: private zones have no more. */
function readName(target: string): Formed {
  if (target.trim() === '*') return refuse(`${TARGETS}; the rule for everything is "*"`)
  const wild = /^\s*\*\.(?!\*)/.exec(target)?.[0]
  const read = wild === undefined ? readDomain(target) : readHostname(target.slice(wild.length))
  if (!read.ok || read.text === '' || /(^|\.)\d+$/.test(read.text)) return refuse(TARGETS)
  if (isInternal(`.${read.text}`)) return refuse(INTERNAL)
  return formed(wild === undefined ? read.text : `*.${read.text}`)
}
