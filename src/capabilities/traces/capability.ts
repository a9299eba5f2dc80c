import { defineCapability } from '../../app/capability.js'
import { DATA_PLANE_PARTS, TRAFFIC_CARRIERS } from '../../app/ports.js'
import { openTelemetry, TELEMETRY } from './open.js'
import { traceFields } from './trace-context.js'

/** Traces exchanges, and sends spans and metrics to a receiver of OpenTelemetry. */
export const traces = defineCapability({
  name: 'traces',
  stages: {
    async sealed({ options, foundation, opened }) {
      const telemetry = await openTelemetry(options, foundation)
      const { tracer } = telemetry
      opened.put(TELEMETRY, telemetry)
      if (tracer === undefined) return
      opened.add(DATA_PLANE_PARTS, { tracing: { tracer, fields: traceFields(options.traces) } })
    },
    ruled({ opened, policies }) {
      const telemetry = opened.get(TELEMETRY)
      telemetry.choose(policies.services.expressions)
      telemetry.measures(async () => await opened.find(TRAFFIC_CARRIERS)?.count())
    }
  }
})
