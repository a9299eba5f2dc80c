/** Imports that run upwards until what they need has its place. */
module.exports = [
  'policy-imports-down: src/policy/action.ts -> src/features/login/selection.ts',
  'policy-imports-down: src/policy/compile.ts -> src/features/login/selection.ts',
  'policy-imports-down: src/policy/compile.ts -> src/features/registry.ts',
  'policy-imports-down: src/policy/scope.ts -> src/features/login/selection.ts',
  'policy-imports-down: src/policy/services.ts -> src/features/jwt/key-sources.ts',
  'policy-imports-down: src/policy/services.ts -> src/features/login/service.ts',
  'policy-imports-down: src/policy/services.ts -> src/features/rate-limit/limiter/table.ts',
  'proxy-imports-down: src/proxy/forwarder.ts -> src/policy/response-reading.ts',
  'proxy-imports-down: src/proxy/http-listener.ts -> src/policy/run.ts',
  'proxy-imports-down: src/proxy/pipeline.ts -> src/features/login/cookies.ts'
]
