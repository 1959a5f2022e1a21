import { Component, createElement, type ComponentType, type FunctionComponent } from "preact";

/** A component that is drawn again only where same says that its properties changed. */
export function memo<P extends object>(inner: FunctionComponent<P>, same: (a: Readonly<P>, b: Readonly<P>) => boolean): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>) {
      return !same(this.props, next);
    }
    override render() {
      return createElement(inner, this.props as P & { children?: never });
    }
  };
}
