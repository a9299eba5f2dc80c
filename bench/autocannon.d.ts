declare module 'autocannon' {
  interface Result {
    readonly requests: { readonly total: number }
    readonly throughput: { readonly total: number }
    readonly latency: { readonly p50: number; readonly p99: number }
    readonly duration: number
    readonly errors: number
    readonly non2xx: number
  }
  interface Options {
    readonly url: string
    readonly connections: number
    readonly duration: number
    readonly method?: 'GET' | 'POST'
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  }
  export default function autocannon(options: Options): Promise<Result>
}
