/** The little of it that the tests use; its own declarations bring those of a browser. */
declare module 'samlify/build/index.js' {
  interface Signing {
    readonly rawSamlMessage: string
    readonly referenceTagXPath: string
    readonly privateKey: string
    readonly signatureAlgorithm: string
    readonly transformationAlgorithms?: readonly string[]
    readonly signingCert: string
    readonly isBase64Output: false
    readonly signatureConfig: {
      readonly prefix: string
      readonly location: { readonly reference: string; readonly action: 'after' }
    }
  }

  interface Provider {
    getMetadata(): string
    parseLoginRequest(
      sp: Provider,
      binding: 'redirect',
      request: { readonly query: Readonly<Record<string, string>>; readonly octetString?: string }
    ): Promise<{ readonly extract: { readonly request: { readonly id: string; readonly destination: string } } }>
    createLoginResponse(
      sp: Provider,
      request: object,
      binding: 'post',
      user: object,
      options: { readonly customTagReplacement: (template: string) => { id: string; context: string } }
    ): Promise<{ readonly context: string; readonly entityEndpoint: string }>
  }

  interface Library {
    setSchemaValidator(validator: { validate(xml: string): Promise<string> }): void
    IdentityProvider(settings: Readonly<Record<string, unknown>>): Provider
    ServiceProvider(settings: Readonly<Record<string, unknown>>): Provider
    readonly SamlLib: { constructSAMLSignature(options: Signing): string }
  }

  const library: Library
  export default library
}
