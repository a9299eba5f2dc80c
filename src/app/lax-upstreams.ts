import type { Logger } from 'pino'
import { ShardedMap } from '../lib/sharded-map.js'
import type { Steps } from '../lib/slices.js'
import { nameOf } from '../proxy/server.js'
import { backendOf } from '../proxy/unit-servers.js'
import type { UpstreamUnit } from '../runtime/plan.js'

/** Returns a function that logs a warning for each upstream without a safeguard, on the first call and after each change of the upstream. */
export function laxUpstreamWarnings(log: Pick<Logger, 'warn'>): (upstreams: ShardedMap<UpstreamUnit>) => Steps<void> {
  let before: ShardedMap<UpstreamUnit> = ShardedMap.empty()
  return function* warn(upstreams) {
    const changes = upstreams.since(before)
    before = upstreams
    for (const { key, after } of changes) {
      yield
      if (after?.form !== 'address') continue
      const fields = { backend: backendOf(key), upstream: nameOf(after) }
      if (after.verify === false)
        log.warn(
          fields,
          'tls.verify is off: whoever stands between this process and the upstream can read and change its traffic'
        )
      if (after.lenient === true)
        log.warn(fields, 'lenient is on: answers of the upstream that break the grammar of HTTP/1.1 are taken')
    }
  }
}
