/**
 * Where tests run: jest's own environment of Node, with globals that are plain properties. Jest's
 * are answered by an interceptor and a proxy of JavaScript, at each `Math` or `Buffer` of the code
 * that is tested: of what the simulator's plans took, nine tenths.
 */

import vm from 'node:vm'
import { TestEnvironment } from 'jest-environment-node'

export default class PlainGlobals extends TestEnvironment {
  /** @param {ConstructorParameters<typeof TestEnvironment>} args */
  constructor(...args) {
    const { createContext } = vm
    // Jest makes its context while it is constructed, and has no other way to say of what kind.
    vm.createContext = () => createContext(vm.constants.DONT_CONTEXTIFY)
    try {
      super(...args)
    } finally {
      vm.createContext = createContext
    }
  }
}
