import { defineCapability } from '../../app/capability.js'
import { POLICY_SERVICES } from '../../app/ports.js'
import { CLUSTER_THREADS } from '../workers/thread-parts.js'
import { openClusterLimits } from './open.js'

/** Counts rate limits over all processes of one PostgreSQL store. */
export const clusterLimits = defineCapability({
  name: 'cluster-limits',
  stages: {
    async carrying({ options, host, foundation, seal, opened }) {
      const { services, threads } = await openClusterLimits(options, host, foundation, seal)
      for (const service of services) opened.add(POLICY_SERVICES, service)
      if (threads !== undefined) opened.put(CLUSTER_THREADS, threads)
    }
  }
})
