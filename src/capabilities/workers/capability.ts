import { defineCapability } from '../../app/capability.js'
import { startErrors } from '../../app/errors.js'
import { DATA_PLANE_PARTS, HEALTH, RELOAD_STEPS, SHARED_RECORDS, TRAFFIC_CARRIERS } from '../../app/ports.js'
import { CodedError } from '../../lib/errors.js'
import type { Options } from '../../options/options.js'
import { beginThreads, openThreadPlace, THREAD_PLACE, THREADS } from './open-threads.js'
import { withoutThreads } from './without-threads.js'

/** Carries traffic in threads of its own. */
export const workers = defineCapability({
  name: 'workers',
  stages: {
    sealed({ options, host, foundation, opened }) {
      if (host.threads === undefined) return
      mustAllowThreads(options)
      opened.add(RELOAD_STEPS, (now) => {
        mustAllowThreads(now)
        return () => opened.find(THREADS)?.take(now)
      })
      const place = openThreadPlace(foundation)
      opened.put(THREAD_PLACE, place)
      opened.put(SHARED_RECORDS, place.records)
      opened.add(
        DATA_PLANE_PARTS,
        place.dataPlaneParts(() => opened.find(THREADS))
      )
    },
    async ruled(context) {
      const { host, opened } = context
      if (host.threads === undefined) return
      const threads = await beginThreads(context, host.threads, opened.get(THREAD_PLACE))
      opened.put(THREADS, threads)
      opened.put(TRAFFIC_CARRIERS, threads)
      opened.add(HEALTH, { workersMissing: () => threads.missing })
    },
    whole: async ({ opened }) => await opened.find(THREADS)?.pool.whole()
  }
})

/** Throws a CodedError `WORKERS`: the options do not go with threads. */
function mustAllowThreads(options: Options): void {
  const [against] = withoutThreads(options)
  if (against !== undefined) throw new CodedError(startErrors.WORKERS, against)
}
